package meta

// Table shows a collection or an object as rows for people. Source: TABLE-01 to TABLE-09.
type Table struct {
	TypeMeta
	ListMeta          `json:"metadata"`
	ColumnDefinitions []TableColumnDefinition `json:"columnDefinitions"`
	Rows              []TableRow              `json:"rows"`
}

// TableColumnDefinition describes one column. Type and Format are those of OpenAPI ("string",
// "date", …); columns with a Priority above 0 are shown only in wide views.
type TableColumnDefinition struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format"`
	Description string `json:"description"`
	Priority    int32  `json:"priority"`
}

// TableRow is one object: cells in column order and, depending on includeObject, the object or its
// metadata.
type TableRow struct {
	Cells      []any               `json:"cells"`
	Conditions []TableRowCondition `json:"conditions,omitempty"`
	Object     RawJSON             `json:"object"` // null when not included
}

// TableRowCondition marks a row, for instance as completed.
type TableRowCondition struct {
	Type    string          `json:"type"`
	Status  ConditionStatus `json:"status"`
	Reason  string          `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"`
}

// RowCompleted is the type of the row condition for an object that has run to completion.
const RowCompleted = "Completed"

// IncludeObjectPolicy selects what TableRow.Object holds.
// Source: TABLE-08.
type IncludeObjectPolicy string

// The values of the includeObject parameter.
const (
	IncludeNone     IncludeObjectPolicy = "None"     // null
	IncludeMetadata IncludeObjectPolicy = "Metadata" // a PartialObjectMetadata; the default
	IncludeObject   IncludeObjectPolicy = "Object"   // the whole object
)
