-- The schema of version 1 with a few rows, as groupd 0.1 development builds made it.
CREATE TABLE meta (
	id INTEGER NOT NULL,
	schema_version INTEGER NOT NULL,
	cluster_id VARCHAR(22) NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE log (
	log_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	name VARCHAR(300),
	owner_epoch BIGINT NOT NULL,
	start_offset BIGINT NOT NULL,
	next_offset BIGINT NOT NULL,
	UNIQUE (name)
);
CREATE TABLE log_batch (
	batch_id INTEGER NOT NULL,
	log_id BIGINT NOT NULL,
	base_offset BIGINT NOT NULL,
	last_offset BIGINT NOT NULL,
	max_timestamp_ms BIGINT NOT NULL,
	row_crc BIGINT NOT NULL,
	payload BLOB NOT NULL,
	PRIMARY KEY (batch_id)
);
CREATE INDEX log_batch_by_offset ON log_batch (log_id, last_offset, max_timestamp_ms);
CREATE TABLE topic (
	topic_id BLOB NOT NULL,
	name VARCHAR(249) NOT NULL,
	partitions INTEGER NOT NULL,
	configs TEXT NOT NULL,
	PRIMARY KEY (topic_id)
);
CREATE TABLE config_override (
	resource_type INTEGER NOT NULL,
	name TEXT NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (resource_type, name, "key")
);
CREATE TABLE producer_id (
	id INTEGER NOT NULL,
	next_id BIGINT NOT NULL,
	PRIMARY KEY (id)
);
INSERT INTO meta VALUES (1, 1, 'K8KtQ5o4As7F-KdL_O1VSg');
INSERT INTO log VALUES (1, 'a', 3, 0, 2), (2, NULL, 1, 0, 1), (3, 'b', 1, 1, 1);
INSERT INTO log_batch VALUES
	(1, 1, 0, 0, 5, 2547473076, X'7061796C6F61642D30'),
	(2, 1, 1, 1, 6, 61391191, X'7061796C6F61642D31'),
	(3, 2, 0, 0, 5, 4199655918, X'7061796C6F61642D30');
INSERT INTO topic VALUES (X'000102030405060708090A0B0C0D0E0F', 'orders', 3, '{"retention.ms": "5"}');
INSERT INTO config_override VALUES (4, '', 'offsets.topic.num.partitions', '50');
INSERT INTO producer_id VALUES (1, 2000);
