//! The checker: compares the answers to clients and the requests to receivers with the database.
//!
//! A create request is acknowledged or in doubt. Acknowledged work must be stored and must end visibly. Work in doubt
//! may be stored, and must then end as well. No other work may exist.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use everhook_core::lifecycle::EndState;
use everhook_core::outcome::Class;

use serde_json::Value;

use crate::history::{BatchOperation, Operation, Receipt, Work};
use crate::receiver::JOBS;
use crate::state::{Attempt, Batch, Part, Place, State, TARGET};

/// Broken promises that are described individually.
const SHOWN: usize = 20;

/// The findings about messages, or about jobs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Create requests that were acknowledged.
    pub acknowledged: usize,
    /// Accepted messages or jobs, including those that were never acknowledged.
    pub accepted: usize,
    /// Deliveries that a receiver took.
    pub delivered: usize,
    /// Deliveries that ended as dead.
    pub dead: usize,
    /// Missing deliveries of acknowledged messages.
    pub lost: usize,
    /// Requests to receivers that match no accepted message, and keys that were accepted twice.
    pub invented: usize,
    /// Deliveries that a receiver took again.
    pub duplicated: usize,
    /// Those of the duplicates that the attempt log explains.
    pub explained: usize,
    /// Deliveries that did not end after healing.
    pub stuck: usize,
    /// Deliveries that ended more than once, or continued after their end.
    pub unfenced: usize,
    /// Descriptions of the first broken promises.
    pub details: Vec<String>,
}

impl Report {
    /// Returns whether all promises were kept.
    pub fn is_good(&self) -> bool {
        self.lost + self.invented + self.stuck + self.unfenced == 0 && self.duplicated == self.explained
    }

    fn note(&mut self, what: String) {
        if self.details.len() < SHOWN {
            self.details.push(what);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "acknowledged  {:>8}   (accepted {})", self.acknowledged, self.accepted)?;
        writeln!(f, "delivered     {:>8}   (given up, visibly: {})", self.delivered, self.dead)?;
        writeln!(f, "lost          {:>8}", self.lost)?;
        writeln!(f, "invented      {:>8}", self.invented)?;
        writeln!(
            f,
            "duplicated    {:>8}   (explained {}, unexplained {})",
            self.duplicated,
            self.explained,
            self.duplicated - self.explained
        )?;
        writeln!(f, "stuck         {:>8}", self.stuck)?;
        write!(f, "unfenced      {:>8}", self.unfenced)?;
        self.details.iter().try_for_each(|detail| write!(f, "\n    {detail}"))
    }
}

/// All evidence about one delivery.
#[derive(Default)]
struct Delivery<'a> {
    receipts: usize,
    taken: usize,
    attempts: Vec<&'a Attempt>,
    place: Option<Place>,
}

impl Delivery<'_> {
    /// Counts the attempts whose request may or may not have reached the receiver or been taken by it.
    fn unsure(&self) -> usize {
        let unsure = [Class::Abandoned, Class::Interrupted, Class::Reset, Class::Timeout];
        self.attempts.iter().filter(|attempt| unsure.contains(&attempt.class)).count()
    }

    fn ended(&self, end: EndState) -> bool {
        self.attempts.iter().any(|attempt| attempt.end == end)
    }
}

/// The observations of clients and receivers.
pub struct Seen<'a> {
    pub operations: &'a [Operation],
    /// The batches that were acknowledged to clients.
    pub batches: &'a [BatchOperation],
    pub receipts: &'a [Receipt],
    /// The states of acknowledged jobs according to the API; none for a job that it does not find.
    pub shown: &'a HashMap<String, Option<String>>,
}

/// Checks the messages of a finished run, including announcements of batches. `endpoints` are ids in the order of their
/// numbers.
pub fn check_messages(seen: &Seen<'_>, state: &State, endpoints: &[String]) -> Report {
    let operations = seen.operations.iter().filter(|operation| operation.work == Work::Message);
    let receipts = seen.receipts.iter().filter(|receipt| receipt.endpoint != JOBS);
    let endpoints = endpoints.iter().map(String::as_str).enumerate().collect::<Vec<_>>();
    let announced = state.messages.accepted.values().filter(|payload| notice(payload).is_some());
    check(operations.collect(), receipts.collect(), announced.collect(), &state.messages, &endpoints)
}

/// Checks the jobs and batches of a finished run.
pub fn check_jobs(seen: &Seen<'_>, state: &State) -> Report {
    let operations = seen.operations.iter().filter(|operation| operation.work != Work::Message).collect::<Vec<_>>();
    let receipts = seen.receipts.iter().filter(|receipt| receipt.endpoint == JOBS).collect();
    let mut report = check(operations.clone(), receipts, Vec::new(), &state.jobs, &[(JOBS, TARGET)]);
    let told = operations.iter().filter_map(|operation| operation.told.first());
    // Missing jobs were already reported.
    for id in told.filter(|id| state.jobs.accepted.contains_key(*id)) {
        let shown = seen.shown.get(id).cloned().flatten().unwrap_or_default();
        let dead = state.jobs.tasks.iter().any(|(job, _, place)| job == id && *place == Place::Dead);
        if shown != if dead { "dead" } else { "succeeded" } {
            report.lost += 1;
            report.note(format!("lost: {id} was acknowledged and is shown as {shown:?}; dead: {dead}"));
        }
    }
    for batch in seen.batches {
        match state.batches.iter().find(|stored| stored.id == batch.id) {
            Some(stored) if stored.sealed || !batch.sealed => {}
            _ => {
                report.lost += 1;
                report.note(format!("lost: batch {} was acknowledged, sealed: {}", batch.id, batch.sealed));
            }
        }
    }
    for batch in &state.batches {
        check_batch(batch, seen.receipts, state, &mut report);
    }
    report
}

/// Parses an announcement: the batch's id and phase, and the numbers of pending and dead jobs.
fn notice(payload: &[u8]) -> Option<(String, u64, (u64, u64))> {
    let value: Value = serde_json::from_slice(payload).ok()?;
    let count = |name: &str| value["counts"][name].as_u64();
    Some((value["batchId"].as_str()?.to_owned(), value["phase"].as_u64()?, (count("pending")?, count("dead")?)))
}

/// Checks that a batch counts its jobs correctly and has announced its result once, and not too early.
fn check_batch(batch: &Batch, receipts: &[Receipt], state: &State, report: &mut Report) {
    let place = |job: &&String| state.jobs.tasks.iter().find(|(id, ..)| id == *job).map(|(.., place)| *place);
    let count = |place_: Place| batch.jobs.iter().filter(|job| place(job) == Some(place_)).count();
    let (open, dead) = (count(Place::Open), count(Place::Dead));
    if (Ok(open), Ok(dead)) != (usize::try_from(batch.pending), usize::try_from(batch.dead)) {
        report.unfenced += 1;
        report.note(format!(
            "batch {} counts {} and {}, there are {open} and {dead}",
            batch.id, batch.pending, batch.dead
        ));
    }
    let of_batch = |payload: &Vec<u8>| notice(payload).filter(|(id, ..)| *id == batch.id);
    let told = state.messages.accepted.values().filter_map(of_batch).collect::<Vec<_>>();
    // The load retries no dead jobs, so each batch has one phase.
    let want = usize::from(dead > 0 || (batch.sealed && open == 0));
    let arrived = receipts.iter().filter(|receipt| receipt.endpoint != JOBS && of_batch(&receipt.body).is_some());
    // Requests with the same id are the same message, as for any receiver.
    let arrived = arrived.map(|receipt| &receipt.message).collect::<HashSet<_>>().len();
    if told.len() != want || arrived != want {
        let (lost, invented) = (told.len().min(arrived) < want, told.len().max(arrived) > want);
        report.lost += usize::from(lost);
        report.invented += usize::from(invented);
        report.note(format!(
            "batch {} was announced {} times and arrived as {arrived}, not {want}",
            batch.id,
            told.len()
        ));
    }
    for (_, phase, (pending, died)) in told {
        if phase != 1 || (died > 0) != (dead > 0) || (died == 0 && pending > 0) {
            report.invented += 1;
            report.note(format!("batch {} announced {pending} pending and {died} dead in phase {phase}", batch.id));
        }
    }
}

/// Checks one kind of work. `endpoints` are numbers and ids; `announced` are stored messages that no client sent.
fn check(
    operations: Vec<&Operation>,
    receipts: Vec<&Receipt>,
    announced: Vec<&Vec<u8>>,
    part: &Part,
    endpoints: &[(usize, &str)],
) -> Report {
    let mut report = Report { accepted: part.accepted.len(), ..Report::default() };
    check_operations(&operations, part, &mut report);
    let sent = operations.iter().map(|operation| operation.payload.as_bytes());
    let sent = sent.chain(announced.into_iter().map(Vec::as_slice)).collect();
    check_receipts(&sent, &receipts, part, &mut report);
    let mut deliveries = gather(&receipts, part, endpoints);
    let acknowledged = operations.iter().filter_map(|operation| operation.told.first()).collect::<HashSet<_>>();
    for subject in part.accepted.keys() {
        for (endpoint, _) in endpoints {
            let delivery = deliveries.remove(&(subject.clone(), *endpoint)).unwrap_or_default();
            check_delivery(subject, *endpoint, &delivery, acknowledged.contains(subject), &mut report);
        }
    }
    report
}

/// Checks that all acknowledged work is stored, once per key and unchanged.
fn check_operations(operations: &[&Operation], part: &Part, report: &mut Report) {
    let mut stored = HashMap::<&[u8], Vec<&String>>::new();
    for (id, payload) in &part.accepted {
        stored.entry(payload).or_default().push(id);
    }
    for operation in operations {
        let Operation { name, payload, told, accepted_another_body, .. } = operation;
        let ids = stored.get(payload.as_bytes()).map(Vec::as_slice).unwrap_or_default();
        if ids.len() > 1 || told.windows(2).any(|pair| pair[0] != pair[1]) {
            report.invented += 1;
            report.note(format!("{name} was accepted more than once: told {told:?}, stored {ids:?}"));
        }
        if *accepted_another_body {
            report.invented += 1;
            report.note(format!("another body was accepted under the key {name}"));
        }
        let Some(id) = told.first() else { continue };
        report.acknowledged += 1;
        if !ids.contains(&id) {
            report.lost += 1;
            report.note(format!("lost: {name} was acknowledged as {id} and is not stored"));
        }
    }
}

/// Checks that receivers only get accepted work, and get it unchanged.
fn check_receipts(sent: &HashSet<&[u8]>, receipts: &[&Receipt], part: &Part, report: &mut Report) {
    for receipt in receipts {
        let stored = part.accepted.get(&receipt.message);
        if stored != Some(&receipt.body) || !sent.contains(receipt.body.as_slice()) {
            report.invented += 1;
            let what = if stored.is_some() { "with other bytes" } else { "but is not stored" };
            report.note(format!("invented: {} arrived at endpoint {} {what}", receipt.message, receipt.endpoint));
        }
    }
}

fn gather<'a>(
    receipts: &[&Receipt],
    part: &'a Part,
    endpoints: &[(usize, &str)],
) -> BTreeMap<(String, usize), Delivery<'a>> {
    let numbers = endpoints.iter().map(|(number, id)| (*id, *number)).collect::<HashMap<_, _>>();
    let mut deliveries = BTreeMap::<_, Delivery<'_>>::new();
    for attempt in &part.attempts {
        let Some(number) = numbers.get(attempt.endpoint.as_str()) else { continue };
        deliveries.entry((attempt.subject.clone(), *number)).or_default().attempts.push(attempt);
    }
    for (message, endpoint, place) in &part.tasks {
        let Some(number) = numbers.get(endpoint.as_str()) else { continue };
        deliveries.entry((message.clone(), *number)).or_default().place = Some(*place);
    }
    for receipt in receipts {
        let delivery = deliveries.entry((receipt.message.clone(), receipt.endpoint)).or_default();
        delivery.receipts += 1;
        delivery.taken += usize::from((200..300).contains(&receipt.status));
    }
    deliveries
}

fn check_delivery(message: &str, endpoint: usize, delivery: &Delivery<'_>, acknowledged: bool, report: &mut Report) {
    let name = format!("{message} to endpoint {endpoint}");
    let dead = delivery.place == Some(Place::Dead) && delivery.ended(EndState::Dead);
    let succeeded = delivery.place.is_none() && delivery.ended(EndState::Succeeded);
    report.delivered += usize::from(delivery.taken > 0);
    report.dead += usize::from(dead);
    if delivery.place == Some(Place::Open) {
        report.stuck += 1;
        report.note(format!("stuck: {name} is still open; {}", show(delivery)));
    } else if !dead && (!succeeded || delivery.taken == 0) {
        report.lost += usize::from(acknowledged);
        report.stuck += usize::from(!acknowledged);
        report.note(format!("lost: {name} was neither delivered nor given up; {}", show(delivery)));
    }
    let extra = delivery.taken.saturating_sub(1);
    let explained = if delivery.receipts > delivery.attempts.len() { 0 } else { extra.min(delivery.unsure()) };
    report.duplicated += extra;
    report.explained += explained;
    if extra > explained {
        report.note(format!("unexplained: {name} was taken {} times; {}", delivery.taken, show(delivery)));
    } else if delivery.receipts > delivery.attempts.len() {
        report.unfenced += 1;
        report.note(format!("a receipt without an attempt: {name}; {}", show(delivery)));
    }
    check_fencing(&name, delivery, report);
}

/// Checks that each life of a delivery has one end and nothing after it.
fn check_fencing(name: &str, delivery: &Delivery<'_>, report: &mut Report) {
    let mut lives = HashMap::<&[u8], Vec<&Attempt>>::new();
    for attempt in &delivery.attempts {
        lives.entry(&attempt.task).or_default().push(attempt);
    }
    for life in lives.values() {
        let last = life.iter().map(|attempt| attempt.epoch).max();
        let ends = life.iter().filter(|attempt| attempt.end != EndState::Open).map(|attempt| attempt.epoch);
        let ends = ends.collect::<Vec<_>>();
        if ends.len() > 1 || ends.first().is_some_and(|end| Some(*end) != last) {
            report.unfenced += 1;
            report.note(format!("{name} was changed after its end; {}", show(delivery)));
        }
    }
}

fn show(delivery: &Delivery<'_>) -> String {
    let mut attempts =
        delivery.attempts.iter().map(|attempt| (attempt.epoch, attempt.class.to_string())).collect::<Vec<_>>();
    attempts.sort();
    format!("{} receipts, {} taken, attempts {attempts:?}", delivery.receipts, delivery.taken)
}
