"""etcd: records, transactions that many calls share, and one watch over everything."""
