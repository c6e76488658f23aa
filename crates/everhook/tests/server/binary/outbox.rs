//! The outbox: an event is part of the customer's transaction and becomes exactly one message, even if a relay crashes.

use std::sync::Arc;

use everhook_testkit::receiver::Receiver;
use everhook_testkit::wait::{until, until_true};
use serde_json::{Value, json};

use crate::binary::client::{Application, text};
use crate::binary::postgres::{Database, Session};
use crate::binary::server::{Backend, Server};

/// A server on PostgreSQL, an application `acme` with one endpoint, and a database session beside it.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) receiver: Receiver,
    pub(crate) application: Application,
    pub(crate) session: Session,
    pub(crate) url: String,
}

impl Stage {
    pub(crate) fn new(settings: &[(&str, &str)]) -> Stage {
        let database = Database::create();
        let url = database.url.clone();
        let server = Server::start(&Arc::new(Backend::Postgres(database)), settings);
        let (application, receiver) = acme(&server);
        Stage { session: Session::connect(&url), server, receiver, application, url }
    }

    /// Waits until all committed rows have left the outbox.
    #[track_caller]
    pub(crate) fn wait_until_empty(&self) {
        until_true("the outbox is empty", || self.session.column("select id from everhook.outbox limit 1").is_empty());
    }

    #[track_caller]
    pub(crate) fn messages(&self) -> Vec<Value> {
        messages(&self.application)
    }
}

pub(crate) fn acme(server: &Server) -> (Application, Receiver) {
    let client = server.client();
    let id = text(&client.post("/app", &json!({ "name": "Acme", "uid": "acme" })).expect(201)["id"]);
    let (application, receiver) = (Application { client, id }, Receiver::start());
    application.endpoint(&receiver.url("/"));
    (application, receiver)
}

/// Returns the messages of an application, oldest first.
#[track_caller]
pub(crate) fn messages(application: &Application) -> Vec<Value> {
    let mut messages = application.client.list(&application.path("/msg"));
    messages.reverse();
    messages
}

fn numbers(messages: &[Value]) -> Vec<i64> {
    messages.iter().map(|message| message["payload"]["number"].as_i64().unwrap()).collect()
}

#[test]
fn what_is_committed_is_delivered_and_what_is_rolled_back_never_was() {
    let stage = Stage::new(&[]);
    let session = &stage.session;
    session.run("begin; select everhook.send('acme', 'order.paid', '{\"number\": 1}'); rollback");
    session.run("begin; select everhook.send('acme', 'order.paid', '{ \"number\":  2 }')");
    let another = Session::connect(&stage.url);
    another.run("begin; select everhook.send('acme', 'order.paid', '{\"number\": 3}'::jsonb, tags => '{blue}', event_id => 'e3'); commit");
    // An open transaction does not delay rows that were committed after it started.
    stage.receiver.wait_for("/", 1);
    session.run("commit");
    let seen = stage.receiver.wait_for("/", 2);
    // A text payload keeps its bytes; a jsonb payload is formatted by PostgreSQL.
    assert_eq!([&seen[0].body[..], &seen[1].body[..]], [&b"{\"number\": 3}"[..], b"{ \"number\":  2 }"]);
    stage.wait_until_empty();
    let messages = stage.messages();
    assert_eq!(numbers(&messages), [3, 2]);
    assert_eq!((&messages[0]["tags"], &messages[0]["eventId"]), (&json!(["blue"]), &json!("e3")));
    assert_eq!(messages[0]["eventType"], "order.paid");
}

#[test]
fn mistakes_that_can_be_told_at_once_fail_the_callers_statement() {
    let stage = Stage::new(&[]);
    let refusal = |call: &str| stage.session.try_run(&format!("select everhook.send({call})")).unwrap_err();
    assert_eq!(
        refusal("'nobody', 'a', '{}'"),
        "everhook.send: there is no application \"nobody\" in the environment \"default\""
    );
    assert!(refusal("'acme', 'a', '{}', environment => 'other'").contains("in the environment \"other\""));
    assert!(refusal("'app_000000000000000000000000000', 'a', '{}'").contains("there is no application"));
    assert!(refusal("'acme', 'a b', '{}'").contains("bad event type"));
    assert!(refusal("'acme', 'a', repeat('x', 1048577)").contains("at most 1048576"));
    assert!(refusal("'acme', 'a', null::text").contains("must not be null"));
    let id = &stage.application.id;
    stage.session.run(&format!("select everhook.send('{id}', 'a', '{{}}')"));
    stage.receiver.wait_for("/", 1);
}

#[test]
fn the_rows_of_one_transaction_are_messages_in_the_same_order_whoever_relays_them() {
    const ROWS: i64 = 1700;
    let stage = Stage::new(&[]);
    let mut others = [stage.server.another(), stage.server.another()];
    others.iter_mut().for_each(Server::start_again);
    stage.session.run(&format!(
        "select everhook.send('acme', 'order.paid', jsonb_build_object('number', number)) from generate_series(1, {ROWS}) as number"
    ));
    stage.wait_until_empty();
    let messages = stage.messages();
    assert_eq!(numbers(&messages), (1..=ROWS).collect::<Vec<_>>());
    assert!(messages.is_sorted_by_key(|message| text(&message["id"])));
    // Each message arrives once, although three nodes relay.
    let expected: Vec<_> = messages.iter().map(|message| text(&message["id"])).collect();
    stage.receiver.wait_for_messages("/", &expected);
    assert_eq!(stage.receiver.count(), expected.len());
}

#[test]
fn a_row_that_cannot_be_a_message_is_set_aside_and_holds_up_nobody() {
    let stage = Stage::new(&[]);
    stage.session.run(
        "begin;
        select everhook.send('acme', 'order.paid', '{\"number\": 1}', event_id => 'one');
        select everhook.send('acme', 'order.paid', 'no json');
        select everhook.send('acme', 'order.paid', '{}', tags => '{a b}');
        select everhook.send('acme', 'order.paid', '{}', event_id => 'one');
        select everhook.send('acme', 'order.paid', '{\"number\": 2}');
        commit",
    );
    stage.wait_until_empty();
    assert_eq!(numbers(&stage.messages()), [1, 2]);
    let errors = until("three rows are aside", || {
        let errors = stage.session.column("select error from everhook.outbox_aside order by id");
        (errors.len() == 3).then_some(errors)
    });
    assert_eq!(
        errors,
        [
            "payload must be a JSON object",
            "tags[0] may only contain letters, digits, '-', '_' and '.'",
            "a message with this eventId already exists"
        ]
    );
}

#[test]
fn a_row_may_name_a_once_slot_and_the_time_of_its_delivery() {
    let stage = Stage::new(&[]);
    let once = |number: i64, more: &str| {
        format!("select everhook.send('acme', 'run.ended', '{{\"number\": {number}}}', once_key => 'run-7'{more});")
    };
    stage.session.run(&format!(
        "{} {} {} {}
        select everhook.send('acme', 'run.ended', '{{\"number\": 5}}', deliver_at => now() + interval '20 days');
        select everhook.send('acme', 'run.ended', '{{}}', deliver_at => now() + interval '40 days');
        select everhook.send('acme', 'run.ended', '{{}}', once_key => 'a b');
        select everhook.send('acme', 'run.ended', '{{}}', once_phase => 1)",
        once(1, ""),
        once(2, ""),
        once(3, ", once_phase => 2"),
        once(4, ", once_phase => 1"),
    ));
    stage.wait_until_empty();
    let messages = stage.messages();
    assert_eq!(numbers(&messages), [1, 3, 5]);
    stage.receiver.wait_for_messages("/", &[text(&messages[0]["id"]), text(&messages[1]["id"])]);
    assert_eq!(
        stage.session.column("select error from everhook.outbox_aside order by id"),
        [
            "deliverAt must be at most 30 days ahead",
            "onceKey may only contain letters, digits, '-', '_' and '.'",
            "oncePhase requires a onceKey"
        ]
    );
    assert_eq!(stage.receiver.count(), 2);
}

#[test]
fn ids_go_on_above_those_of_a_node_whose_clock_was_ahead() {
    let stage = Stage::new(&[]);
    stage.session.run("select everhook.send('acme', 'order.paid', '{\"number\": 1}')");
    stage.wait_until_empty();
    // Simulates a last id from half a minute ahead: the first four bytes are seconds.
    stage.session.run(
        "update everhook.outbox_relay
        set floor = int4send(('x' || encode(substr(floor, 1, 4), 'hex'))::bit(32)::int + 30) || substr(floor, 5)",
    );
    let floor = || stage.session.column("select encode(floor, 'hex') from everhook.outbox_relay").remove(0);
    let before = floor();
    stage.session.run("select everhook.send('acme', 'order.paid', '{\"number\": 2}')");
    stage.wait_until_empty();
    assert_eq!(numbers(&stage.messages()), [1, 2]);
    let last = text(&stage.messages()[1]["id"]).replace("msg_", "");
    let made = stage.session.column(&format!("select encode(everhook.id_bytes('{last}'), 'hex')")).remove(0);
    assert!(made > before && floor() == made, "{before} {made}");
}

#[test]
fn a_uid_that_moved_is_found_where_it_is_now() {
    let stage = Stage::new(&[]);
    stage.session.run("select everhook.send('acme', 'order.paid', '{\"number\": 1}')");
    stage.wait_until_empty();
    // The relay has cached the uid.
    let client = &stage.application.client;
    client.patch(&stage.application.path(""), &json!({ "uid": "old-acme" })).expect(200);
    let id = text(&client.post("/app", &json!({ "name": "New", "uid": "acme" })).expect(201)["id"]);
    stage.session.run("select everhook.send('acme', 'order.paid', '{\"number\": 2}', event_id => 'two')");
    stage.wait_until_empty();
    assert_eq!(numbers(&stage.messages()), [1]);
    assert_eq!(numbers(&messages(&Application { client: client.clone(), id })), [2]);
}

#[test]
fn a_role_that_may_send_may_do_nothing_else() {
    let stage = Stage::new(&[]);
    let role = format!("everhook_it_sender_{:08x}", everhook_testkit::rng::seed() as u32);
    stage.session.run(&format!("create role {role}"));
    let _role = Role { session: Session::connect(&stage.url), name: role.clone() };
    let refused = |statement: &str| stage.session.try_run(&format!("set role {role}; {statement}")).unwrap_err();
    let send = "select everhook.send('acme', 'order.paid', '{\"number\": 1}')";
    assert!(refused(send).contains("permission denied"));
    stage.session.run("rollback; reset role");
    Backend::postgres_at(stage.url.clone()).run(&["outbox", "grant", &role]);
    stage
        .session
        .run(&format!("set role {role}; {send}; {}", send.replace("'{\"number\": 1}'", "'{\"number\": 2}'::jsonb")));
    stage.receiver.wait_for("/", 2);
    for table in stage
        .session
        .column("select format('%I.%I', schemaname, tablename) from pg_tables where schemaname = 'everhook'")
    {
        assert!(refused(&format!("table {table}")).contains("permission denied"), "{table}");
        assert!(refused(&format!("delete from {table}")).contains("permission denied"), "{table}");
    }
    assert!(
        refused("insert into everhook.outbox (application, event_type, payload) values ('acme', 'a', '{}')")
            .contains("permission denied")
    );
    assert!(refused("select everhook.id_bytes('')").contains("permission denied"));
    assert!(refused("create table everhook.mine ()").contains("permission denied"));
    stage.session.run("reset role");
}

/// A role that is dropped at the end of the test.
struct Role {
    session: Session,
    name: String,
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.session.try_run(&format!("reset role; drop owned by {0}; drop role {0}", self.name));
    }
}

#[test]
fn a_crash_between_append_and_delete_makes_no_second_message() {
    let mut stage = Stage::new(&[]);
    check_crash_before_delete(&mut stage.server, &stage.application, &stage.receiver, &stage.url);
}

/// Kills the server after it has appended a row and before it deletes the row.
pub(crate) fn check_crash_before_delete(
    server: &mut Server,
    application: &Application,
    receiver: &Receiver,
    source: &str,
) {
    let session = Session::connect(source);
    session.run(
        "create function hold() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(1); return null; end $$;
        create trigger hold before delete on everhook.outbox for each statement execute function hold();
        select pg_advisory_lock(1);
        select everhook.send('acme', 'order.paid', '{\"number\": 1}')",
    );
    let waiting = "select pid from pg_locks where locktype = 'advisory' and not granted \
        and database = (select oid from pg_database where datname = current_database())";
    let relay = until("the relay is about to delete", || session.column(waiting).pop());
    receiver.wait_for("/", 1);
    let first = text(&messages(application)[0]["id"]);
    until_true("its attempt is recorded", || !application.attempts(&first).is_empty());
    server.kill();
    // Statements that the server has already sent must not run either.
    session.run(&format!("select pg_terminate_backend({relay}, 60000)"));
    session.run("select pg_advisory_unlock(1); drop trigger hold on everhook.outbox");
    assert_eq!(session.column("select id from everhook.outbox").len(), 1, "the row is still there");

    server.start_again();
    until_true("the outbox is empty", || session.column("select id from everhook.outbox").is_empty());
    session.run("select everhook.send('acme', 'order.paid', '{\"number\": 2}')");
    receiver.wait_for("/", 2);
    assert_eq!(numbers(&messages(application)), [1, 2]);
    assert_eq!(receiver.count(), 2);
}
