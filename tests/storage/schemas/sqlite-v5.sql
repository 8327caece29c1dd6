CREATE TABLE config_override ( resource_type INTEGER NOT NULL, name TEXT NOT NULL, "key" TEXT NOT NULL, value TEXT NOT NULL, row_crc BIGINT NOT NULL, PRIMARY KEY (resource_type, name, "key") );
CREATE TABLE log ( log_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name VARCHAR(300), owner_epoch BIGINT NOT NULL, start_offset BIGINT NOT NULL, next_offset BIGINT NOT NULL, row_sum BIGINT NOT NULL, clean_offset BIGINT DEFAULT 0 NOT NULL, UNIQUE (name) );
CREATE TABLE log_batch ( batch_id INTEGER NOT NULL, log_id BIGINT NOT NULL, base_offset BIGINT NOT NULL, last_offset BIGINT NOT NULL, max_timestamp_ms BIGINT NOT NULL, row_crc BIGINT NOT NULL, payload BLOB NOT NULL, PRIMARY KEY (batch_id) );
CREATE TABLE meta ( id INTEGER NOT NULL, schema_version INTEGER NOT NULL, cluster_id VARCHAR(22) NOT NULL, row_crc BIGINT NOT NULL, owner_epoch BIGINT DEFAULT 0 NOT NULL, PRIMARY KEY (id) );
CREATE TABLE producer_id ( id INTEGER NOT NULL, next_id BIGINT NOT NULL, row_crc BIGINT NOT NULL, PRIMARY KEY (id) );
CREATE TABLE security_entry ( kind VARCHAR(16) NOT NULL, key_hash BLOB NOT NULL, entry_key TEXT NOT NULL, value TEXT NOT NULL, row_crc BIGINT NOT NULL, PRIMARY KEY (kind, key_hash) );
CREATE TABLE topic ( topic_id BLOB NOT NULL, name VARCHAR(249) NOT NULL, partitions INTEGER NOT NULL, configs TEXT NOT NULL, row_crc BIGINT NOT NULL, PRIMARY KEY (topic_id) );
CREATE INDEX log_batch_by_offset ON log_batch (log_id, last_offset, max_timestamp_ms);
-- Rows
INSERT INTO meta (id, schema_version, cluster_id, row_crc, owner_epoch) VALUES (1, 5, 'kept-from-old-versions', 2990871236, 7);
INSERT INTO log (name, owner_epoch, start_offset, next_offset, row_sum, clean_offset) VALUES ('orders-0', 3, 1, 3, 7246953768, 0);
INSERT INTO log_batch (log_id, base_offset, last_offset, max_timestamp_ms, row_crc, payload) VALUES (1, 0, 1, 1700000000000, 445754488, x'6669727374');
INSERT INTO log_batch (log_id, base_offset, last_offset, max_timestamp_ms, row_crc, payload) VALUES (1, 2, 2, 1700000000001, 1205501526, x'7365636f6e64');
INSERT INTO topic (topic_id, name, partitions, configs, row_crc) VALUES (x'000102030405060708090a0b0c0d0e0f', 'orders', 3, '{"retention.ms": "1000"}', 1340922856);
INSERT INTO config_override (resource_type, name, key, value, row_crc) VALUES (32, 'billing', 'consumer.session.timeout.ms', '46000', 4531282);
INSERT INTO producer_id (id, next_id, row_crc) VALUES (1, 1000, 456531108);
INSERT INTO security_entry (kind, key_hash, entry_key, value, row_crc) VALUES ('acl', x'3d400c510d94ac9f4c1926d3e92167fff08396a353fa4cb8801e6bb8f208ad66', '["User:alice"]', '{"kept": true}', 3095389890);
