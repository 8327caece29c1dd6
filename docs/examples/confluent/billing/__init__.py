"""Bills orders: reads them from Kafka, charges, writes invoices to a database."""
