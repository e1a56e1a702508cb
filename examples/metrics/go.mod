module github.com/zklocks/zklocks/examples/metrics

go 1.26.0

require (
	github.com/prometheus/client_golang v1.25.0
	github.com/zklocks/zklocks v0.1.0
	github.com/zklocks/zklocks/metrics v0.0.0
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/hashicorp/errwrap v1.0.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/petermattis/goid v0.0.0-20260820044319-269ab09b5261 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

// An example beside what it shows: it is run from here.
replace (
	github.com/zklocks/zklocks => ../..
	github.com/zklocks/zklocks/metrics => ../../metrics
)
