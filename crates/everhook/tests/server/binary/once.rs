//! One message per slot and phase, from any number of replicas and through crashes; and scheduled messages.

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use everhook_testkit::length::length;
use everhook_testkit::receiver::Receiver;
use everhook_testkit::rng::{self, Rng};
use everhook_testkit::wait::{Deadline, PATIENCE, unix_seconds};
use serde_json::{Value, json};

use crate::binary::client::{Application, Client, text};
use crate::binary::environment::{everhook, python, repository, variable};
use crate::binary::scene::Scene;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    a_winner_whose_server_is_killed_before_its_delivery_is_delivered_in_a_crash_and_stays_the_only_one,
    a_message_for_later_is_delivered_then_without_polling,
    the_pipeline_of_the_documentation_keeps_the_contract,
    slots_are_listed_shown_and_reset_by_commands,
}

/// Tasks of dead servers are taken over after a second.
const SETTINGS: [(&str, &str); 2] = [("LEASE_SECONDS", "1"), ("RETRY_SCHEDULE", "0.1,0.2,0.5,1,1,1,1,1")];

/// Reply to a claim: the status, and the message that has the slot.
type Answer = (u16, String);

fn body(key: &str) -> Value {
    json!({ "eventType": "run.ended", "payload": { "run": key }, "once": { "key": key } })
}

#[track_caller]
fn claim(application: &Application, key: &str) -> Answer {
    let reply = application.client.post(&application.path("/msg"), &body(key));
    let answer = reply.json();
    assert_eq!(answer.get("suppressed"), (reply.status == 200).then_some(&json!(true)), "{answer}");
    (reply.status, text(&answer["id"]))
}

/// Claims one slot `claims` times at once, through these clients in turn.
fn claim_at_once(clients: &[Client], application: &str, key: &str, claims: usize) -> Vec<Option<Answer>> {
    thread::scope(|scope| {
        let claims = (0..claims).zip(clients.iter().cycle()).map(|(_, client)| {
            scope.spawn(move || {
                let path = format!("/app/{application}/msg");
                let reply = client.send("POST", &path, &[], body(key).to_string().as_bytes()).ok()?;
                matches!(reply.status, 200 | 202).then(|| (reply.status, text(&reply.json()["id"])))
            })
        });
        let claims: Vec<_> = claims.collect();
        claims.into_iter().map(|claim| claim.join().unwrap()).collect()
    })
}

fn replicas(settings: &[(&str, &str)]) -> Vec<Server> {
    let first = Server::start(&Backend::postgres(), settings);
    let mut all = vec![first.another(), first.another()];
    all.iter_mut().for_each(Server::start_again);
    all.push(first);
    all
}

fn messages_of(application: &Application, run: &str) -> Vec<String> {
    let messages = application.client.list(&application.path("/msg"));
    messages.iter().filter(|message| message["payload"]["run"] == run).map(|message| text(&message["id"])).collect()
}

#[test]
fn of_sixty_four_claims_on_three_replicas_one_is_delivered_and_the_others_are_told() {
    let (servers, receiver) = (replicas(&[]), Receiver::start());
    let clients: Vec<_> = servers.iter().map(Server::client).collect();
    let application = clients[0].application("Acme");
    let endpoint = application.endpoint(&receiver.url("/"));
    for round in 0..5 {
        let run = format!("run-{round}");
        let answers = claim_at_once(&clients, &application.id, &run, 64);
        let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("every claim is answered")).collect();
        let ids: BTreeSet<_> = answers.iter().map(|(_, id)| id).collect();
        assert_eq!(ids.len(), 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|(status, _)| *status == 202).count(), 1, "{answers:?}");
        let winner = answers[0].1.clone();
        application.wait_for(&winner, &endpoint, "success");
        assert_eq!(messages_of(&application, &run), [winner]);
        let slot = clients[1].get(&application.path(&format!("/once/{run}"))).expect(200);
        assert_eq!(slot["suppressedCount"], 63);
    }
    let runs: Vec<_> = receiver.seen("/").into_iter().map(|seen| seen.body).collect();
    let want: Vec<_> = (0..5).map(|round| format!(r#"{{"run":"run-{round}"}}"#).into_bytes()).collect();
    assert_eq!(runs, want, "one delivery for each run");
}

#[test]
fn claims_in_a_storm_of_crashes_have_one_winner_that_is_delivered() {
    let seed = variable("EVERHOOK_TEST_SEED").map_or_else(rng::seed, |seed| seed.parse().unwrap());
    eprintln!("EVERHOOK_TEST_SEED={seed}");
    let random = Rng::new(seed);
    let (mut servers, receiver) = (replicas(&SETTINGS), Receiver::start());
    let clients: Vec<_> = servers.iter().map(Server::client).collect();
    let application = clients[0].application("Acme");
    let endpoint = application.endpoint(&receiver.url("/"));
    let mut unanswered = 0;
    for round in 0..length(9_usize, 20) {
        let run = format!("run-{round}");
        let (victim, after) = (round % servers.len(), random.below(12));
        let answers = kill_amid(&mut servers[victim], &clients, &application.id, &run, after);
        servers[victim].start_again();
        unanswered += answers.iter().filter(|answer| answer.is_none()).count();
        // A client without a reply asks again. By now another claim has won for certain, or this one does.
        let (_, winner) = claim(&application, &run);
        let told: BTreeSet<_> = answers.iter().flatten().map(|(_, id)| id).chain([&winner]).collect();
        assert_eq!(told.len(), 1, "round {round}: {answers:?}, then {winner}");
        let won = answers.iter().flatten().filter(|(status, _)| *status == 202).count();
        assert!(won <= 1, "round {round}: {answers:?}");
        application.wait_for(&winner, &endpoint, "success");
        assert_eq!(messages_of(&application, &run), std::slice::from_ref(&winner), "a slot has one message");
        let sent: Vec<_> = receiver.everything();
        let of_run = sent.iter().filter(|seen| seen.body == format!(r#"{{"run":"{run}"}}"#).as_bytes());
        assert!(of_run.into_iter().all(|seen| seen.message() == winner), "another message was sent");
    }
    eprintln!("{unanswered} claims were not answered");
}

/// Claims a slot on every replica, and kills one replica after `after` started claims.
fn kill_amid(
    victim: &mut Server,
    clients: &[Client],
    application: &str,
    run: &str,
    after: usize,
) -> Vec<Option<Answer>> {
    let begun = AtomicUsize::new(0);
    thread::scope(|scope| {
        let claimers: Vec<_> = clients
            .iter()
            .map(|client| {
                let begun = &begun;
                scope.spawn(move || {
                    let claims = (0..16).map(|_| {
                        begun.fetch_add(1, Ordering::Relaxed);
                        claim_at_once(std::slice::from_ref(client), application, run, 1).remove(0)
                    });
                    claims.collect::<Vec<_>>()
                })
            })
            .collect();
        // The winner is decided within milliseconds, so the loop polls without pauses.
        let give_up = Deadline::new(PATIENCE);
        while begun.load(Ordering::Relaxed) < after && !give_up.is_over() {
            thread::yield_now();
        }
        victim.kill();
        claimers.into_iter().flat_map(|claimer| claimer.join().unwrap()).collect()
    })
}

fn a_winner_whose_server_is_killed_before_its_delivery_is_delivered_in_a_crash_and_stays_the_only_one(
    backend: Arc<Backend>,
) {
    let Scene { mut server, receiver, application, endpoint } = Scene::start(&backend, &SETTINGS);
    receiver.hang("/");
    let (status, winner) = claim(&application, "run");
    assert_eq!(status, 202);
    receiver.wait_for("/", 1);
    server.kill();
    server.start_again();
    assert_eq!(claim(&application, "run"), (200, winner.clone()));
    receiver.release("/");
    application.wait_for(&winner, &endpoint, "success");
    assert_eq!(claim(&application, "run"), (200, winner.clone()));
    assert!(receiver.seen("/").iter().all(|seen| seen.message() == winner));
    assert_eq!(messages_of(&application, "run"), [winner]);
}

fn a_message_for_later_is_delivered_then_without_polling(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } =
        Scene::start(&backend, &[("POLL_INTERVAL_MS", "3600000")]);
    let due = unix_seconds() + 3;
    let at = jiff::Timestamp::from_second(due).unwrap().to_string();
    let message = json!({ "eventType": "later", "payload": {}, "deliverAt": at });
    let later = text(&application.client.post(&application.path("/msg"), &message).expect(202)["id"]);
    let now = application.send(&json!({}));
    application.wait_for(&now, &endpoint, "success");
    application.wait_for(&later, &endpoint, "success");
    let seen = receiver.seen("/");
    let sent_at: i64 =
        seen.iter().find(|seen| seen.message() == later).unwrap().header("webhook-timestamp").parse().unwrap();
    assert!(sent_at >= due, "sent at {sent_at}, due at {due}");
    assert_eq!(seen.len(), 2);
}

fn the_pipeline_of_the_documentation_keeps_the_contract(backend: Arc<Backend>) {
    let Scene { server, receiver, application, .. } = Scene::start(&backend, &[]);
    let output = Command::new(python())
        .arg(repository("examples/once/pipeline.py"))
        .args([&application.id, "run-42"])
        .env("EVERHOOK_URL", server.url())
        .env("EVERHOOK_KEY", server.key())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("EVERHOOK_TEST_PYTHON runs");
    let diary = printed(&output);
    let documented = std::fs::read_to_string(repository("docs/once.md")).unwrap();
    assert!(documented.contains(&format!("```text\n{diary}```")), "docs/once.md says otherwise:\n{diary}");
    let mut outcomes: Vec<_> = receiver
        .wait_for("/", 3)
        .iter()
        .map(|seen| text(&serde_json::from_slice::<Value>(&seen.body).unwrap()["outcome"]))
        .collect();
    outcomes.sort();
    assert_eq!(outcomes, ["completed", "failed", "failed"]);
}

fn slots_are_listed_shown_and_reset_by_commands(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let application = server.client().application("Acme");
    let (_, winner) = claim(&application, "run-1");
    claim(&application, "run-1");
    claim(&application, "run-2");
    let once = |arguments: &[&str]| {
        let mut command = everhook();
        command.arg("once").args(arguments).env("EVERHOOK_URL", server.url()).env("EVERHOOK_KEY", server.key());
        command.output().unwrap()
    };
    let list = printed(&once(&["list", &application.id]));
    assert!(list.starts_with("KEY ") && list.lines().count() == 3 && list.contains(&winner), "{list}");
    let slots: Value = serde_json::from_str(&printed(&once(&["list", &application.id, "--json"]))).unwrap();
    assert_eq!(
        (&slots[0]["key"], &slots[0]["suppressedCount"], &slots[1]["key"]),
        (&json!("run-1"), &json!(1), &json!("run-2"))
    );
    let shown = printed(&once(&["show", &application.id, "run-1"]));
    assert!(shown.contains(&format!("{winner} in phase 0")) && shown.contains("0 (won)"), "{shown}");
    assert_eq!(
        printed(&once(&["reset", &application.id, "run-1"])),
        "run-1 is in phase 1 (open: the next claim wins)\n"
    );
    let slot: Value = serde_json::from_str(&printed(&once(&["show", &application.id, "run-1", "--json"]))).unwrap();
    assert_eq!((&slot["phase"], &slot["open"], &slot["winner"]), (&json!(1), &json!(true), &json!(winner)));
    assert_eq!(claim(&application, "run-1").0, 202);
    for (arguments, complaint) in [
        (["reset", &application.id, "run-3"], "once-slot \"run-3\" not found"),
        (["show", &application.id, "a b"], "invalid key"),
    ] {
        let refused = once(&arguments);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && text.contains(complaint), "{text}");
    }
}

#[track_caller]
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}
