-- append_event appends an event to the log if that ends with the event expected, which the event continues. It returns NULL if the event is stored,
-- and otherwise what refusal returns. Each statement of the function takes about as long as inserting a row, so there are few.
CREATE FUNCTION BOX.append_event(program integer, known_fence bigint, expected bigint, new_time bigint, new_type bytea, new_work bytea, new_session bytea,
	new_actor bytea, new_data bytea, continues bytea, new_hash bytea) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
	IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
		PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	END IF;
	LOCK TABLE BOX.format IN SHARE UPDATE EXCLUSIVE MODE;
	INSERT INTO BOX.events (seq, time, type, work, session, actor, data, prev, hash)
	SELECT expected + 1, new_time, new_type, new_work, new_session, new_actor, new_data, continues, new_hash WHERE (SELECT oldest <= program AND fence = known_fence FROM BOX.format)
		AND coalesce((SELECT seq = expected AND hash = continues FROM BOX.events ORDER BY seq DESC LIMIT 1), expected = 0 AND continues = NOHASH);
	IF FOUND THEN
		RETURN NULL;
	END IF;
	RETURN BOX.refusal(program);
END $$;

-- append_events is append_event for several events, of which each continues the previous one.
CREATE FUNCTION BOX.append_events(program integer, known_fence bigint, expected bigint, times bigint[], types bytea[], works bytea[],
	sessions bytea[], actors bytea[], datas bytea[], prevs bytea[], hashes bytea[]) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
	n integer := pg_catalog.cardinality(hashes);
	continues pg_catalog.bytea := prevs[1]; -- without the schema, it could be a type of the caller, whose checks would run as the owner
BEGIN
	IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
		PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	END IF;
	LOCK TABLE BOX.format IN SHARE UPDATE EXCLUSIVE MODE;
	IF (SELECT oldest <= program AND fence = known_fence FROM BOX.format)
		AND coalesce((SELECT seq = expected AND hash = continues FROM BOX.events ORDER BY seq DESC LIMIT 1), expected = 0 AND continues = NOHASH) AND prevs[2:n] = hashes[1:n-1] AND array_lower(hashes, 1) = 1 THEN
		INSERT INTO BOX.events (seq, time, type, work, session, actor, data, prev, hash)
		SELECT expected + u.number, u.time, u.type, u.work, u.session, u.actor, u.data, u.prev, u.hash
		FROM ROWS FROM (unnest(times, types, works, sessions, actors, datas, prevs, hashes)) WITH ORDINALITY
			AS u(time, type, work, session, actor, data, prev, hash, number);
		RETURN NULL;
	END IF;
	RETURN BOX.refusal(program);
END $$;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA BOX FROM PUBLIC;
