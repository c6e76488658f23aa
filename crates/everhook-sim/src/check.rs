//! Checks a world: compares the answers to clients and the requests to receivers with the store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everhook_core::id::{EndpointId, JobId, MessageId};
use everhook_core::lifecycle::EndState;
use everhook_core::limits::CRASHES_MAX;
use everhook_core::outcome::Class;
use everhook_core::policy::RateLimit;
use everhook_core::policy::limit::LaneLimits;
use everhook_core::retry::Jitter;
use everhook_core::task::TaskKind;
use everhook_store::lease::NewAttempt;
use everhook_testkit::mem::{Tables, TaskPlace, TaskRow};

use crate::check::jobs::JobEvidence;
use crate::client::Sent;
use crate::crowd;
use crate::network::{JOBS, Receipt};
use crate::node::retry_policy;
use crate::world::Outcome;

pub(crate) mod jobs;

/// A delivery to an endpoint that answers at once starts within this time after its acceptance, whatever other
/// applications do. A request to a hanging endpoint takes 15 s.
const UNFAIR_AFTER: Duration = Duration::from_secs(1);

/// All evidence about one delivery.
#[derive(Default)]
struct Delivery<'a> {
    receipts: Vec<&'a Receipt>,
    taken: usize,
    attempts: Vec<&'a NewAttempt>,
    dead: bool,
}

impl Delivery<'_> {
    fn count(&self, classes: &[Class]) -> usize {
        self.attempts.iter().filter(|attempt| classes.contains(&attempt.class)).count()
    }

    fn ends(&self) -> usize {
        self.attempts.iter().filter(|attempt| attempt.end != EndState::Open).count()
    }
}

/// The evidence that a finished world leaves.
pub(crate) struct Evidence<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) sent: &'a [Sent],
    pub(crate) receipts: &'a [Receipt],
    /// The numbers of the endpoints that should get each accepted message.
    pub(crate) promised: &'a BTreeMap<MessageId, Vec<usize>>,
    pub(crate) jobs: JobEvidence<'a>,
    pub(crate) endpoints: usize,
    /// The limits of each endpoint.
    pub(crate) limits: &'a [LaneLimits],
    /// The times at which the database's clock was set forward.
    pub(crate) jumps: &'a [Duration],
    pub(crate) faults: bool,
    /// Hanging endpoints of another application.
    pub(crate) crowd: usize,
}

/// Checks one finished world.
pub(crate) fn check(evidence: &Evidence<'_>) -> Outcome {
    let deliveries = gather(evidence.tables, evidence.receipts);
    let mut violations = Vec::new();
    check_clients(evidence, &deliveries, &mut violations);
    check_announcements(evidence, &deliveries, &mut violations);
    jobs::check(evidence, &mut violations);
    check_rates(evidence, &mut violations);
    check_concurrency(evidence, &mut violations);
    check_order(evidence, &mut violations);
    check_fairness(evidence, &mut violations);
    for ((message, endpoint), delivery) in &deliveries {
        let name = format!("{message} to endpoint {endpoint}");
        check_delivery(&name, delivery, evidence.faults, &mut violations);
        check_schedule(&name, delivery, evidence.jumps, &mut violations);
    }
    Outcome {
        fingerprint: (0, 0),
        acknowledged: evidence.sent.iter().filter(|sent| sent.acknowledged.is_some()).count(),
        delivered: deliveries.values().filter(|delivery| delivery.taken > 0).count(),
        duplicated: deliveries.values().map(|delivery| delivery.taken.saturating_sub(1)).sum(),
        jobs: evidence.jobs.asked.iter().filter(|asked| asked.acknowledged.is_some()).count(),
        runs: evidence.jobs.runs.len(),
        announced: evidence.tables.messages.values().filter(|message| message.event_id.is_some()).count(),
        violations,
    }
}

fn gather<'a>(tables: &'a Tables, receipts: &'a [Receipt]) -> BTreeMap<(String, usize), Delivery<'a>> {
    let number = |id: EndpointId| usize::from(id.as_bytes()[19]) - 1;
    let mut deliveries = BTreeMap::<_, Delivery<'_>>::new();
    let is_job = |key: &everhook_core::task::TaskKey| tables.jobs.contains_key(&(key.environment, JobId(key.subject)));
    let is_checked = |id: EndpointId| !crowd::has(number(id));
    let attempts = tables.attempts.iter().filter(|((key, _), row)| !is_job(key) && is_checked(row.endpoint));
    for ((key, _), row) in attempts {
        let message = MessageId(key.subject).to_string();
        deliveries.entry((message, number(row.endpoint))).or_default().attempts.push(&row.attempt);
    }
    let is_delivery = |row: &TaskRow| row.task.kind == TaskKind::Delivery && is_checked(EndpointId(row.task.lane.0));
    for (key, row) in tables.tasks.iter().filter(|(_, row)| is_delivery(row)) {
        let message = MessageId(key.subject).to_string();
        let delivery = deliveries.entry((message, number(EndpointId(row.task.lane.0)))).or_default();
        delivery.dead |= row.place == TaskPlace::Dead;
    }
    for receipt in receipts.iter().filter(|receipt| receipt.endpoint != JOBS) {
        let delivery = deliveries.entry((receipt.message.clone(), receipt.endpoint)).or_default();
        delivery.receipts.push(receipt);
        delivery.taken += usize::from(receipt.taken);
    }
    deliveries
}

/// Checks that no message is lost or invented, that each key has one message, and that payloads are unchanged.
fn check_clients(
    evidence: &Evidence<'_>,
    deliveries: &BTreeMap<(String, usize), Delivery<'_>>,
    violations: &mut Vec<String>,
) {
    let Evidence { tables, sent, receipts, promised, .. } = evidence;
    let accepted = tables.messages.keys().map(|(_, _, id)| *id).collect::<BTreeSet<_>>();
    let promised = |id| promised.get(id).map(Vec::as_slice).unwrap_or_default();
    let mut bodies = BTreeMap::new();
    for sent in *sent {
        let ids = sent.ids.iter().filter(|id| accepted.contains(id)).collect::<Vec<_>>();
        if ids.len() > 1 {
            violations.push(format!("one key was accepted as {ids:?}"));
        }
        bodies.extend(sent.ids.iter().map(|id| (id.to_string(), &sent.body)));
        let Some(id) = &sent.acknowledged else { continue };
        if !accepted.contains(id) {
            violations.push(format!("lost: {id} was acknowledged and is not stored"));
        }
        for endpoint in promised(id) {
            match deliveries.get(&(id.to_string(), *endpoint)) {
                Some(delivery) if delivery.taken > 0 || delivery.dead => {}
                _ => violations.push(format!("lost: {id} was acknowledged and never came to endpoint {endpoint}")),
            }
        }
    }
    let announcements = tables.messages.values().filter(|message| message.event_id.is_some());
    bodies.extend(announcements.filter_map(|message| Some((message.id.to_string(), message.payload.as_ref()?))));
    for receipt in receipts.iter().filter(|receipt| receipt.endpoint != JOBS) {
        match bodies.get(&receipt.message) {
            None => violations.push(format!("invented: no client sent {}", receipt.message)),
            Some(body) if **body != receipt.body => violations.push(format!("changed: {}", receipt.message)),
            Some(_) => {}
        }
    }
    for id in &accepted {
        for endpoint in promised(id) {
            let delivery = deliveries.get(&(id.to_string(), *endpoint));
            if delivery.map_or(0, Delivery::ends) != 1 {
                violations.push(format!("{id} to endpoint {endpoint} did not end exactly once"));
            }
        }
    }
}

/// Checks announcements of batches: every delivery ends exactly once, and without faults each endpoint gets one.
fn check_announcements(
    evidence: &Evidence<'_>,
    deliveries: &BTreeMap<(String, usize), Delivery<'_>>,
    violations: &mut Vec<String>,
) {
    for message in evidence.tables.messages.values().filter(|message| message.event_id.is_some()) {
        for endpoint in 0..evidence.endpoints {
            let ends = deliveries.get(&(message.id.to_string(), endpoint)).map(Delivery::ends);
            if ends.unwrap_or(usize::from(evidence.faults)) != 1 {
                violations.push(format!("announcement {} to endpoint {endpoint} did not end exactly once", message.id));
            }
        }
    }
}

/// Checks that no endpoint gets more than its rate over any ten seconds, by more than a tenth. A clock that is set
/// forward ends waits early.
fn check_rates(evidence: &Evidence<'_>, violations: &mut Vec<String>) {
    let limited = evidence.limits.iter().enumerate().filter_map(|(endpoint, limits)| Some((endpoint, limits.rate?)));
    for (endpoint, RateLimit { count, seconds }) in limited {
        let allowed = usize::try_from((11 * count).div_ceil(seconds)).unwrap_or(usize::MAX);
        let receipts = evidence.receipts.iter().filter(|receipt| receipt.endpoint == endpoint);
        let mut begun: Vec<Duration> = receipts.map(|receipt| receipt.begun).collect();
        begun.sort_unstable();
        for (first, from) in begun.iter().enumerate() {
            let until = *from + Duration::from_secs(10);
            let within = begun[first..].iter().take_while(|at| **at < until).count();
            let jumped = evidence.jumps.iter().any(|at| (*from..until).contains(at));
            if within > allowed && !jumped {
                violations.push(format!("endpoint {endpoint}: {within} of {allowed} requests from {from:?} on"));
                break;
            }
        }
    }
}

/// Checks that no endpoint has more requests under way than it allows. Nodes that crash or hang may leave requests
/// behind, so this is only known without faults.
fn check_concurrency(evidence: &Evidence<'_>, violations: &mut Vec<String>) {
    let limited = evidence.limits.iter().enumerate().filter_map(|(endpoint, it)| Some((endpoint, it.at_once()?)));
    for (endpoint, limit) in limited.filter(|_| !evidence.faults) {
        let receipts: Vec<&Receipt> = evidence.receipts.iter().filter(|receipt| receipt.endpoint == endpoint).collect();
        let runs_at = |at: Duration, other: &&&Receipt| other.begun <= at && other.ended.is_none_or(|ended| ended > at);
        let most = receipts.iter().map(|receipt| receipts.iter().filter(|it| runs_at(receipt.begun, it)).count()).max();
        if most.is_some_and(|most| most > usize::try_from(limit).unwrap_or(usize::MAX)) {
            violations.push(format!("endpoint {endpoint}: {most:?} requests at once, {limit} allowed"));
        }
    }
}

/// Checks that an ordered endpoint gets no message before one that was acknowledged before it was sent, unless that one
/// is dead, whatever the database's clock does. An endpoint that is ordered by a key does so among messages of one key.
fn check_order(evidence: &Evidence<'_>, violations: &mut Vec<String>) {
    let is_ordered = |limits: &LaneLimits| limits.order.is_some() || limits.is_keyed;
    let ordered = evidence.limits.iter().enumerate().filter(|(_, limits)| is_ordered(limits));
    for (endpoint, limits) in ordered {
        let mut came = Vec::new();
        for sent in evidence.sent {
            let Some(id) = sent.acknowledged.map(|id| id.to_string()) else { continue };
            let receipts = || evidence.receipts.iter().filter(|it| it.endpoint == endpoint && it.message == id);
            let taken = receipts().filter(|receipt| receipt.taken).map(|receipt| receipt.begun).min();
            came.extend(receipts().map(|receipt| receipt.begun).min().map(|first| (sent, first, taken)));
        }
        for (sent, first, _) in &came {
            let is_ordered =
                |earlier: &Sent| earlier.told_at < sent.asked_at && (!limits.is_keyed || earlier.key == sent.key);
            let is_late = |taken: Option<Duration>| taken.is_some_and(|taken| *first < taken);
            let late = came.iter().find(|(earlier, _, taken)| is_ordered(earlier) && is_late(*taken));
            if let (Some((earlier, _, taken)), Some(id)) = (late, sent.acknowledged) {
                let earlier = earlier.acknowledged;
                violations.push(format!("endpoint {endpoint}: {id} at {first:?}, before {earlier:?} at {taken:?}"));
            }
        }
    }
}

/// Checks that hanging endpoints of another application delay no delivery.
fn check_fairness(evidence: &Evidence<'_>, violations: &mut Vec<String>) {
    if evidence.crowd == 0 {
        return;
    }
    for sent in evidence.sent {
        let Some(id) = sent.acknowledged.map(|id| id.to_string()) else { continue };
        for endpoint in 0..evidence.endpoints {
            let receipts = evidence.receipts.iter().filter(|it| it.endpoint == endpoint && it.message == id);
            let waited = receipts.map(|receipt| receipt.begun.saturating_sub(sent.told_at)).min();
            if waited.is_none_or(|waited| waited > UNFAIR_AFTER) {
                violations.push(format!("{id} to endpoint {endpoint} waited for {waited:?} beside a crowd"));
            }
        }
    }
}

/// Checks that the log explains every duplicate, and that crashes are counted.
fn check_delivery(name: &str, delivery: &Delivery<'_>, faults: bool, violations: &mut Vec<String>) {
    let unsure = delivery.count(&[Class::Abandoned, Class::Interrupted]);
    let logged = delivery.attempts.len() - unsure - delivery.count(&[Class::Connect, Class::Cancelled]);
    let receipts = delivery.receipts.len();
    if receipts > logged + unsure {
        violations.push(format!("{name}: {receipts} receipts, {logged} logged attempts, {unsure} crashes or stops"));
    }
    let lost_replies = delivery.count(&[Class::Reset]);
    if delivery.taken > 1 + unsure + lost_replies {
        violations.push(format!("{name}: taken {} times without a cause", delivery.taken));
    }
    if !faults && receipts != 1 {
        violations.push(format!("{name}: {receipts} receipts without any fault"));
    }
    let crashes = delivery.count(&[Class::Abandoned]);
    if crashes > CRASHES_MAX as usize {
        violations.push(format!("{name}: abandoned {crashes} times, and still not given up"));
    }
}

/// Checks that no attempt starts before it is due in virtual time. Exceptions are a clock set forward, and a crashed
/// holder, after which the task is due at once.
fn check_schedule(name: &str, delivery: &Delivery<'_>, jumps: &[Duration], violations: &mut Vec<String>) {
    if delivery.count(&[Class::Abandoned, Class::Interrupted]) > 0 {
        return;
    }
    let least = retry_policy().delay(1, Jitter::from_bits(0)).unwrap_or_default();
    for pair in delivery.receipts.windows(2) {
        let (Some(ended), began) = (pair[0].ended, pair[1].at) else { continue };
        let jumped = jumps.iter().any(|at| (ended..=began).contains(at));
        if !jumped && began.saturating_sub(ended) < least {
            violations.push(format!("{name}: retried after {:?} instead of {least:?}", began.saturating_sub(ended)));
        }
    }
}
