package main

import (
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// Delivery asks for a parcel to be brought somewhere.
type Delivery struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec   DeliverySpec   `json:"spec"`
	Status DeliveryStatus `json:"status,omitzero"`
}

// DeliverySpec says what should happen.
type DeliverySpec struct {
	To string `json:"to" minLength:"1" column:"To" doc:"Where the parcel should go."`
}

// DeliveryStatus says what has happened.
type DeliveryStatus struct {
	Phase       string    `json:"phase,omitempty" enum:"Waiting,Delivered" column:"Phase" doc:"Whether the parcel has arrived."`
	Attempts    int32     `json:"attempts,omitempty" column:"Attempts" doc:"How often the courier was asked."`
	LastAttempt meta.Time `json:"lastAttempt,omitzero" doc:"When the courier was asked last."`
	Problem     string    `json:"problem,omitempty" doc:"What the courier said then."`
}

// The phases of a delivery.
const (
	waiting   = "Waiting"
	delivered = "Delivered"
)

// finalizer keeps a deleted delivery until the courier knows.
const finalizer = "parcels.example.com/courier"

// Deliveries is the kind that a server serves and the controller reads.
var Deliveries = registry.Kind[Delivery]{Group: "parcels.example.com", Version: "v1", Plural: "deliveries"}
