package mirror_test

import (
	"fmt"
	"net/http"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/internal/mirror"
	"github.com/kindwright/kindwright/kinds"
)

func Example() {
	m := mirror.New[kinds.ConfigMap](mirror.Config[kinds.ConfigMap]{Client: client.For(&http.Client{}, configMaps)})
	fmt.Println(len(m.All()), m.Err())
	// Output: 0 they have not been read yet
}
