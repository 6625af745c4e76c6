"""What needs an installed package, a browser, network namespaces, or plugins of others: `make test-installed`."""
