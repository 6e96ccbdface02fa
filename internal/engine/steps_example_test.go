package engine

import "fmt"

// Every way in which something is written is one of these lists.
func Example_lists() {
	show("create, update, patch", writeSteps)
	show("server-side apply", applySteps)
	show("documents: virtual kinds, actions", documentSteps)
	show("connections", connectSteps)
	show("delete", deleteSteps)
	show("delete of a collection", collectionSteps)
	show("the end of a grace period", graceSteps)
	show("the end of a time to live", expirySteps)
	show("owners and finalizers", amendSteps)
	show("migration", migrationSteps)
	// Output:
	// create, update, patch
	//   decode         a body has the kind and the name of the URL; unknown fields are reported and dropped
	//   read           the stored object, or that there is none; for a view, the document that it shows
	//   compute        a patch is applied to what is stored; what it makes is judged like a body
	//   identity       the stored object is the one that is meant; the fields of the system are the system's
	//   conform        values are canonical, defaults are filled in
	//   reset          fields that this path may not change are as stored
	//   manage         who owns which fields, counted from what the requester sent (SSA-12)
	//   namespace      of a new object: it exists and is not ending, now and at the commit
	//   mutate         mutating plugins see what was sent; nothing that they add counts as such
	//   view           a document that shows a part of the object is put into the object
	//   name           of a new object: after the plugins, which may have set it (ADM-08)
	//   metadata       uid and creation time of a new object, and what the kind sets for the server
	//   convert        what is stored of an object that came in another version
	//   count          the generation, and whether the last finalizer went, as the stored form tells
	//   validate       metadata, schema and the rules of the kind: every error at once
	//   admit          validating plugins see exactly what will be stored
	//   unchanged      a write that changes nothing is not written (UPDATE-09)
	//   commit         the store decides; a write that is answered is durable and visible to every read
	// server-side apply
	//   read           the stored object, or that there is none; for a view, the document that it shows
	//   compute        the configuration is decoded
	//   configuration  it says what it is, and has no unknown fields; it is never defaulted
	//   merge          into what is stored, with the owners of its fields; conflicts end the walk (PATCH-02)
	//   identity       as for the other writes, from here on
	//   conform        values are canonical, defaults are filled in
	//   reset          fields that this path may not change are as stored, and are not owned either
	//   namespace      of a new object: it exists and is not ending, now and at the commit
	//   mutate         mutating plugins; nothing that they add is part of the configuration
	//   view           a Scale is put into the object
	//   name           of a new object
	//   metadata       uid and creation time of a new object, and what the kind sets for the server
	//   convert        what is stored of an object that came in another version
	//   count          the generation, and whether the last finalizer went, as the stored form tells
	//   validate       metadata, schema and the rules of the kind: every error at once
	//   admit          validating plugins see exactly what will be stored
	//   unchanged      an apply that changes nothing is not written (SSA-28)
	//   commit         the store decides
	// documents: virtual kinds, actions
	//   compute        the decoded body
	//   options        an action would do more than is meant if it lost an option: none is misspelt, empty or given twice
	//   identity       kind, name and namespace agree with the URL; unknown fields are reported; there is metadata
	//   conform        values are canonical, defaults are filled in
	//   mutate         mutating plugins
	//   validate       schema and the rules of the document
	//   admit          validating plugins see exactly what will be acted upon
	// connections
	//   required       the caller has the verbs that the kind requires beside that of the method
	//   options        read from the query, defaulted and validated
	//   mutate         mutating plugins see the options; what they change is defaulted and validated again
	//   admit          validating plugins; whom they refuse does not learn whether there is an object
	//   object         it is there
	//   connect        the handler of the kind
	// delete
	//   read           the object that is meant, or that there is none
	//   preconditions  uid and version are those that the requester insists on (DEL-11)
	//   waiting        an object that is ending, no later than is asked for now, stays as it is (META-15)
	//   rules          those of the kind
	//   mutate         mutating plugins are asked, and have nothing to change
	//   admit          validating plugins
	//   mark           the finalizer of the policy, and when the object is to end
	//   commit         it is removed, or stays marked where finalizers or its kind hold it (DEL-09)
	// delete of a collection
	//   list           the objects that are selected, at one version
	//   delete         each walks the list of a delete; the first that cannot be deleted ends it (DEL-15)
	// the end of a grace period
	//   due            it is in the state whose time is over: another one has another time
	//   over           it has no time left
	//   commit         it is removed, or waits for finalizers alone
	// the end of a time to live
	//   due            it has not been renewed
	//   held           what waits for finalizers stays
	//   remove         the store checks once more that it has not been renewed
	// owners and finalizers
	//   read           the object, or that there is none
	//   preconditions  it is still what the collector has judged
	//   amend          the patch is applied to the metadata
	//   commit         an object that is ending is removed with its last finalizer
	// migration
	//   read           the record as it is stored; one that was written meanwhile is passed over
	//   modernise      the object in the present form, with present defaults; what would lose by it stays
	//   commit         the store checks that nobody was faster
}

func show[S state](name string, steps []step[S]) {
	fmt.Println(name)
	for _, s := range steps {
		fmt.Printf("  %-15s%s\n", s.name, s.why)
	}
}
