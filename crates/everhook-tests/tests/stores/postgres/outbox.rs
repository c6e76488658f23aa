//! The outbox in the store's own PostgreSQL, and in another one.

use async_trait::async_trait;
use everhook_core::id::Id;
use everhook_postgres::PostgresOutbox;
use everhook_store::outbox::{Claim, Done, Finished, Outbox, OutboxBatch, Taken};
use everhook_testkit::conformance::outbox::{OutboxStage, check};
use tokio_postgres::Client;

use crate::postgres::database::Database;

struct Postgres {
    outbox: PostgresOutbox,
    client: Client,
}

#[async_trait]
impl OutboxStage for Postgres {
    fn outbox(&self) -> &dyn Outbox {
        &self.outbox
    }

    async fn write(&self, payloads: &[String]) {
        let insert = "insert into everhook.outbox (application, event_type, payload, tags)
            select 'acme', 'a.b', payload, '{x,y}' from unnest($1::text[]) as payload";
        self.client.execute(insert, &[&payloads]).await.unwrap();
    }

    async fn write_under(&self, id: i64, payload: &str) {
        let insert =
            "insert into everhook.outbox (id, application, event_type, payload) values ($1, 'acme', 'a.b', $2)";
        self.client.execute(insert, &[&id, &payload]).await.unwrap();
    }

    async fn write_unreadable(&self) -> Vec<&'static str> {
        const TOO_LARGE: &str = "the row is larger than the 1114112 bytes that are relayed";
        let rows = [
            ("deliver_at", "'infinity'", "deliverAt must be from 1970 to 9998"),
            ("deliver_at", "'-infinity'", "deliverAt must be from 1970 to 9998"),
            ("deliver_at", "'294276-01-01'", "deliverAt must be from 1970 to 9998"),
            ("created_at", "'infinity'", "created_at must be from 1970 to 9998"),
            ("tags", "array[null]", "tags must not hold nulls"),
            ("tags", "array[['a'], ['b']]", "tags must be a plain list"),
            ("channels", "array['a', null]", "channels must not hold nulls"),
            ("channels", "array[['a'], ['b']]", "channels must be a plain list"),
            ("event_id", "repeat('x', 2000000)", TOO_LARGE),
            // Compressed into a few kilobytes, and not compressible.
            ("tags", "array_fill('x'::text, array[300000])", TOO_LARGE),
            ("tags", "(select array_agg(md5(number::text)) from generate_series(1, 100000) as number)", TOO_LARGE),
        ];
        for (column, value, _) in rows {
            let insert = format!(
                "insert into everhook.outbox (application, event_type, payload, {column}) values ('acme', 'a.b', 'bad', {value})"
            );
            self.client.batch_execute(&insert).await.unwrap();
        }
        rows.map(|(_, _, reason)| reason).to_vec()
    }
}

#[tokio::test]
async fn the_stores_own_outbox_keeps_the_promises_of_every_outbox() {
    let database = Database::migrated().await;
    let store = database.store().await;
    check(&Postgres { outbox: store.outbox(), client: database.client().await }).await;
}

#[tokio::test]
async fn an_outbox_elsewhere_keeps_the_promises_of_every_outbox() {
    let database = Database::empty().await;
    PostgresOutbox::install(database.url()).await.unwrap();
    for pooler in [false, true] {
        let client = database.client().await;
        client.batch_execute("update everhook.outbox_relay set floor = null").await.unwrap();
        let outbox = PostgresOutbox::in_database(database.url(), pooler).unwrap();
        check(&Postgres { outbox, client }).await;
    }
}

/// Takes a batch, which must exist.
async fn take(outbox: &PostgresOutbox) -> (Claim, OutboxBatch) {
    match outbox.take().await.unwrap() {
        Taken::Rows(claim, batch) => (claim, batch),
        other => panic!("{other:?}"),
    }
}

fn all(batch: &OutboxBatch) -> Done {
    Done { relayed: batch.rows.iter().map(|row| row.id).collect(), ..Done::default() }
}

#[tokio::test]
async fn one_relays_at_a_time_and_a_row_that_someone_has_locked_is_left_for_later() {
    let database = Database::migrated().await;
    let store = database.store().await;
    let stage = Postgres { outbox: store.outbox(), client: database.client().await };
    stage.write(&["one".to_owned(), "two".to_owned(), "three".to_owned()]).await;
    let operator = database.client().await;
    operator.batch_execute("begin; select from everhook.outbox where payload = 'one' for update").await.unwrap();
    let (claim, batch) = take(&stage.outbox).await;
    assert_eq!(batch.len(), 2);
    assert!(matches!(stage.outbox.take().await.unwrap(), Taken::Busy));
    assert_eq!(stage.outbox.finish(claim, all(&batch)).await.unwrap(), Finished::Done);
    for _ in 0..2 {
        assert!(matches!(stage.outbox.take().await.unwrap(), Taken::Nothing), "a look at locked rows keeps no claim");
    }
    operator.batch_execute("commit").await.unwrap();
    assert_eq!(take(&stage.outbox).await.1.len(), 1);
}

#[tokio::test]
async fn an_expired_claim_is_taken_over_and_its_first_holder_changes_nothing() {
    let (own, elsewhere) = (Database::migrated().await, Database::empty().await);
    PostgresOutbox::install(elsewhere.url()).await.unwrap();
    for database in [own, elsewhere] {
        let outbox = || PostgresOutbox::in_database(database.url(), false).unwrap();
        let stage = Postgres { outbox: outbox(), client: database.client().await };
        stage.write(&["one".to_owned(), "two".to_owned()]).await;
        let now = stage.client.query_one("select clock_timestamp()::text", &[]).await.unwrap();
        let (first, batch) = take(&stage.outbox).await;
        let another = outbox();
        assert!(matches!(another.take().await.unwrap(), Taken::Busy));
        let held = "select held_until - interval '5 s' between $1::text::timestamptz and clock_timestamp() \
            from everhook.outbox_relay";
        let held = stage.client.query_one(held, &[&now.get::<_, &str>(0)]).await.unwrap();
        assert!(held.get::<_, bool>(0), "a dead holder costs 5 s");
        let expire = "update everhook.outbox_relay set held_until = clock_timestamp() - interval '1 ms'";
        stage.client.batch_execute(expire).await.unwrap();
        let (second, again) = take(&another).await;
        assert_eq!(again.rows.len(), 2, "no row has left");
        let aside = |batch: &OutboxBatch| Done {
            relayed: vec![batch.rows[0].id],
            set_aside: vec![(batch.rows[1].id, "late".to_owned())],
            floor: Some(Id::MAX),
        };
        assert_eq!(stage.outbox.finish(first, aside(&batch)).await.unwrap(), Finished::Lost);
        let status = another.status().await.unwrap();
        assert_eq!((status.depth, status.set_aside), (2, 0));
        assert!(matches!(stage.outbox.take().await.unwrap(), Taken::Busy), "the second holder has its claim");
        assert_eq!(another.finish(second, all(&again)).await.unwrap(), Finished::Done);
        assert_eq!(another.finish(second, all(&again)).await.unwrap(), Finished::Lost, "it was given up");
        assert!(matches!(stage.outbox.take().await.unwrap(), Taken::Nothing));
    }
}

#[tokio::test]
async fn what_the_relay_could_not_read_fails_the_statement_of_who_sends_it() {
    let (own, elsewhere) = (Database::migrated().await, Database::empty().await);
    PostgresOutbox::install(elsewhere.url()).await.unwrap();
    for database in [own, elsewhere] {
        let client = database.client().await;
        for (arguments, reason) in [
            ("deliver_at => 'infinity'", "deliver_at must be from 1970 to 9998"),
            ("deliver_at => '-infinity'", "deliver_at must be from 1970 to 9998"),
            ("deliver_at => '294276-01-01'", "deliver_at must be from 1970 to 9998"),
            ("tags => array[null]", "a channel or tag must have 1 to 256 characters, and not be null"),
            ("channels => array['a', null]", "a channel or tag must have 1 to 256 characters, and not be null"),
            ("tags => array[repeat('x', 257)]", "a channel or tag must have 1 to 256 characters, and not be null"),
            ("tags => array[['a'], ['b']]", "channels and tags must be plain lists"),
            ("channels => array[['a'], ['b']], tags => '{x}'", "channels and tags must be plain lists"),
            ("tags => array_fill('x'::text, array[9])", "at most 10 channels and 8 tags are accepted"),
            ("channels => array_fill('x'::text, array[11])", "at most 10 channels and 8 tags are accepted"),
            ("event_id => repeat('x', 257)", "have at most 256 characters each"),
            ("once_key => repeat('x', 257)", "have at most 256 characters each"),
            ("environment => repeat('x', 257)", "have at most 256 characters each"),
        ] {
            let call = format!("select everhook.send('acme', 'a.b', '{{}}', {arguments})");
            let error = client.batch_execute(&call).await.unwrap_err();
            let told = error.as_db_error().unwrap().message().to_owned();
            assert!(told.starts_with("everhook.send: ") && told.ends_with(reason), "{call}: {told}");
        }
        let call = "select everhook.send(repeat('x', 257), 'a.b', '{}')";
        let told = client.batch_execute(call).await.unwrap_err().as_db_error().unwrap().message().to_owned();
        assert!(told.ends_with("have at most 256 characters each"), "{told}");
    }
}
