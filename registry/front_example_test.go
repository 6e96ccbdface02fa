package registry_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
)

type Room struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Beds            int32 `json:"beds"`
}

type Booking struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Room            string `json:"room"`
	Guests          int32  `json:"guests"`
}

// A rule looks another object up with For. Code outside of rules uses From.
func ExampleFor() {
	rooms := registry.Kind[Room]{Group: "inn.example.com", Version: "v1", Plural: "rooms"}
	bookings := registry.Kind[Booking]{
		Group: "inn.example.com", Version: "v1", Plural: "bookings",
		Rules: registry.Rules[Booking]{Validate: func(ctx context.Context, b *Booking, f *status.Fields) {
			room, err := registry.For[Room](ctx).Get(ctx, b.Namespace, b.Room)
			if err != nil {
				f.At("room").NotFound(b.Room)
			} else if room.Beds < b.Guests {
				f.At("guests").Invalid(b.Guests, fmt.Sprintf("room %s has %d beds", room.Name, room.Beds))
			}
		}},
	}
	db := memory.New()
	defer func() { _ = db.Close() }()
	srv, err := kindwright.New(db, kindwright.Serve(rooms, bookings))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer srv.Wait()
	defer stop()
	if err := srv.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	_, err = registry.From[Room](srv.Engine()).Create(ctx, &Room{ObjectMeta: meta.Named("north", "blue"), Beds: 2})
	fmt.Println(err)
	_, err = registry.From[Booking](srv.Engine()).Create(ctx, &Booking{ObjectMeta: meta.Named("north", "ann"), Room: "blue", Guests: 3})
	fmt.Println(err)
	added, err := registry.From[Room](srv.Engine()).Modify(ctx, "north", "blue", func(r *Room) error { r.Beds++; return nil })
	fmt.Println(added.Beds, err)
	// Output:
	// <nil>
	// Booking.inn.example.com "ann" is invalid: guests: Invalid value: 3: room blue has 2 beds
	// 3 <nil>
}
