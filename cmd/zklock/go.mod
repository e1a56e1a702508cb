module github.com/zklocks/zklocks/cmd/zklock

go 1.25.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/zklocks/zklocks v0.1.0
	golang.org/x/sys v0.41.0
)

require (
	github.com/hashicorp/errwrap v1.0.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/petermattis/goid v0.0.0-20260820044319-269ab09b5261 // indirect
	go.uber.org/goleak v1.3.0 // indirect
)
