// Package shape describes the objects that servers are measured with: where they live, what a client sends to make one,
// and what it sends to change one. Two shapes come with it, a core kind and one that Kubernetes serves from a custom
// resource definition; both make bodies of 1 KiB. Others are made from templates.
//
// A template is a text with placeholders:
//
//	${name} ${namespace}   of the object
//	${version}             "resourceVersion":"17",   or nothing, if the write is not conditional; belongs in the metadata
//	${index} ${bucket}     the object's number, and its remainder by 100, for selectors that match 1 %
//	${seq}                 another number for each write
//	${text:150}            150 bytes of words that compress as configuration does, others for each object and place
package shape
