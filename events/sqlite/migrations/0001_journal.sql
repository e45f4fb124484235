-- The journal. Pos is assigned by the writer and never reused: threads are
-- never removed, so the greatest head_pos is the high-water mark.
create table journal(
	one     integer primary key check (one = 1),
	id      text    not null, -- names this database in all-threads cursors
	trimmed integer not null  -- greatest pos that Trim removed
) strict;

create table thread(
	id       integer primary key,
	name     text    not null unique,
	journal  text    not null, -- names this thread in its cursors
	head     integer not null,
	head_pos integer not null,
	oldest   integer not null, -- seq of the oldest event kept
	at       integer not null, -- of the newest event, in ms
	deleted  integer not null,
	indexed  integer not null, -- seq up to which the texts are searchable
	info     blob
) strict;
create unique index thread_recent on thread(head_pos);

create table event(
	pos    integer primary key,
	thread integer not null,
	seq    integer not null,
	type   text    not null,
	at     integer not null,
	data   blob    not null
) strict;
create unique index event_seq on event(thread, seq);

create table open_text(
	thread integer not null,
	item   text    not null,
	text   text    not null,
	primary key (thread, item)
) strict;

create table snapshot(
	thread  integer primary key,
	seq     integer not null,
	version integer not null,
	data    blob    not null
) strict;

create table blob(
	id   integer primary key,
	hash blob    not null unique,
	data blob    not null
) strict;

-- Which threads keep a blob alive.
create table blob_ref(
	thread integer not null,
	blob   integer not null,
	primary key (thread, blob)
) strict, without rowid;
create index blob_ref_blob on blob_ref(blob);

-- The search index. doc.thread holds one token per thread, so that a query
-- reads only what the thread has.
create table doc_ref(
	id     integer primary key,
	thread integer not null,
	ref    text    not null,
	unique (thread, ref)
) strict;
create virtual table doc using fts4(thread, text, tokenize=unicode61 "remove_diacritics=2");
