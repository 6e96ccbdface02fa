package protobuf_test

import (
	"fmt"
	"reflect"

	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/meta"
)

// Zone is a kind whose fields have protobuf numbers.
type Zone struct {
	meta.TypeMeta
	meta.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec            ZoneSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

// ZoneSpec is a part of a Zone.
type ZoneSpec struct {
	Region string `json:"region" protobuf:"bytes,1,opt,name=region"`
}

func Example() {
	zones, ok, err := protobuf.Describe(reflect.TypeFor[Zone]())
	if err != nil || !ok {
		fmt.Println("no protobuf for zones:", err)
		return
	}
	message, err := zones.AppendMessage(nil, []byte(`{"spec":{"region":"north"}}`))
	fmt.Printf("%x %v\n", message, err)

	document, err := zones.AppendObject(nil, "example.dev/v1", "Zone", []byte(`{"metadata":{"name":"a"},"spec":{"region":"north"}}`))
	fmt.Printf("%q… %v\n", document[:24], err)

	object, err := zones.AppendDocument(nil, document, 1<<20)
	fmt.Printf("%s %v\n", object, err)

	_, err = zones.AppendDocument(nil, []byte(`{"kind":"Zone"}`), 1<<20)
	fmt.Println(err)
	// Output:
	// 0a100a0012001a0022002a0032003800420012070a056e6f727468 <nil>
	// "k8s\x00\n\x16\n\x0eexample.dev/v1\x12\x04"… <nil>
	// {"apiVersion":"example.dev/v1","kind":"Zone","metadata":{"name":"a"},"spec":{"region":"north"}} <nil>
	// protobuf: the content type is application/vnd.kubernetes.protobuf, but the body is JSON or YAML
}
