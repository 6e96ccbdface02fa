// Package shape describes the objects of a measurement: their path, the body that creates one, and
// the patch that changes one. It has two shapes, a core kind and a kind that Kubernetes serves from
// a custom resource definition; both have bodies of 1 KiB. Other shapes can be made from templates.
//
// A template is a text with placeholders:
//
//	${name} ${namespace}   of the object
//	${version}             "resourceVersion":"17",   or nothing, if the write is not conditional; belongs in the metadata
//	${index} ${bucket}     the object's number, and its remainder by 100, for selectors that match 1 %
//	${seq}                 another number for each write
//	${text:150}            150 bytes of words that compress as configuration does, others for each object and place
package shape
