// Package threeway is a three-way merge of decoded JSON: it applies the difference between two trees
// to a third one that holds more than they do.
//
// A client sees a part of an object: the fields that another version of the kind has, or those that
// its Go struct knows. The part before its change and the part after it are two trees. The object is
// the third. [Merge] changes in the object what changed in the part, and keeps everything else:
//
//   - A member that left the part leaves the object. If the object has more below that member, the
//     rest stays; the member itself goes when nothing but defaults would be left.
//   - Items of a list that have keys are followed by their keys. Other items are followed by what
//     they hold: see [Pair]. Items that the part never showed stay next to the item before them.
//
// Trees are those of package tree. They are not changed; the result shares parts with them.
package threeway
