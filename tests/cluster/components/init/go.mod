// The first process of the test cluster's nodes and pods. See docs/test-cluster.md.
module harmony.dev/test-cluster/init

go 1.25.0
