module github.com/zklocks/zklocks/examples/gocron

go 1.26.0

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/google/uuid v1.6.0
	github.com/zklocks/zklocks v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/hashicorp/errwrap v1.0.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
)

// An example beside what it shows: it is run from here.
replace github.com/zklocks/zklocks => ../..
