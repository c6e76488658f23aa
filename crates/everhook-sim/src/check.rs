//! The checker: what clients were told and receivers got, against what the store says.

use std::collections::{BTreeMap, BTreeSet};

use everhook_core::id::EndpointId;
use everhook_core::lifecycle::EndState;
use everhook_core::outcome::Class;
use everhook_core::retry::Jitter;
use everhook_store::lease::NewAttempt;
use everhook_store::mem::{Tables, TaskPlace};

use crate::client::Sent;
use crate::network::Receipt;
use crate::node::retry_policy;
use crate::world::Outcome;

/// Everything that is known of one delivery.
#[derive(Default)]
struct Delivery<'a> {
    receipts: usize,
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

/// Checks one finished world.
pub(crate) fn check(tables: &Tables, sent: &[Sent], receipts: &[Receipt], faults: bool, endpoints: usize) -> Outcome {
    let deliveries = gather(tables, receipts);
    let mut violations = Vec::new();
    check_clients(tables, sent, receipts, endpoints, &deliveries, &mut violations);
    for ((message, endpoint), delivery) in &deliveries {
        let name = format!("{message} to endpoint {endpoint}");
        check_delivery(&name, delivery, faults, &mut violations);
    }
    Outcome {
        fingerprint: (0, 0),
        acknowledged: sent.iter().filter(|sent| sent.acknowledged.is_some()).count(),
        delivered: deliveries.values().filter(|delivery| delivery.taken > 0).count(),
        duplicated: deliveries.values().map(|delivery| delivery.taken.saturating_sub(1)).sum(),
        violations,
    }
}

fn gather<'a>(tables: &'a Tables, receipts: &[Receipt]) -> BTreeMap<(String, usize), Delivery<'a>> {
    let number = |id: EndpointId| usize::from(id.as_bytes()[19]) - 1;
    let mut deliveries = BTreeMap::<_, Delivery<'_>>::new();
    for ((key, _), row) in &tables.attempts {
        let message = everhook_core::id::MessageId(key.subject).to_string();
        deliveries.entry((message, number(row.endpoint))).or_default().attempts.push(&row.attempt);
    }
    for (key, row) in &tables.tasks {
        let message = everhook_core::id::MessageId(key.subject).to_string();
        let delivery = deliveries.entry((message, number(EndpointId(row.task.lane.0)))).or_default();
        delivery.dead |= row.place == TaskPlace::Dead;
    }
    for receipt in receipts {
        let delivery = deliveries.entry((receipt.message.clone(), receipt.endpoint)).or_default();
        delivery.receipts += 1;
        delivery.taken += usize::from(receipt.taken);
    }
    for delivery in deliveries.values_mut() {
        delivery.attempts.sort_by_key(|attempt| attempt.started_at);
    }
    deliveries
}

/// No loss, no invention, one message for each key, the bytes are the bytes.
fn check_clients(
    tables: &Tables,
    sent: &[Sent],
    receipts: &[Receipt],
    endpoints: usize,
    deliveries: &BTreeMap<(String, usize), Delivery<'_>>,
    violations: &mut Vec<String>,
) {
    let accepted = tables.messages.keys().map(|(_, _, id)| *id).collect::<BTreeSet<_>>();
    let mut bodies = BTreeMap::new();
    for sent in sent {
        let ids = sent.ids.iter().filter(|id| accepted.contains(id)).collect::<Vec<_>>();
        if ids.len() > 1 {
            violations.push(format!("one key was accepted as {ids:?}"));
        }
        bodies.extend(sent.ids.iter().map(|id| (id.to_string(), &sent.body)));
        let Some(id) = sent.acknowledged else { continue };
        for endpoint in 0..endpoints {
            match deliveries.get(&(id.to_string(), endpoint)) {
                Some(delivery) if delivery.taken > 0 || delivery.dead => {}
                _ => violations.push(format!("lost: {id} was acknowledged and never came to endpoint {endpoint}")),
            }
        }
    }
    for receipt in receipts {
        match bodies.get(&receipt.message) {
            None => violations.push(format!("invented: nobody sent {}", receipt.message)),
            Some(body) if **body != receipt.body => violations.push(format!("changed: {}", receipt.message)),
            Some(_) => {}
        }
    }
    for id in &accepted {
        for endpoint in 0..endpoints {
            let delivery = deliveries.get(&(id.to_string(), endpoint));
            if delivery.map_or(0, Delivery::ends) != 1 {
                violations.push(format!("{id} to endpoint {endpoint} did not end exactly once"));
            }
        }
    }
}

/// Explained duplicates, and no attempt before it is due.
fn check_delivery(name: &str, delivery: &Delivery<'_>, faults: bool, violations: &mut Vec<String>) {
    let unsure = delivery.count(&[Class::Abandoned, Class::Interrupted]);
    let logged = delivery.attempts.len() - unsure - delivery.count(&[Class::Connect, Class::Cancelled]);
    if delivery.receipts > logged + unsure {
        let receipts = delivery.receipts;
        violations.push(format!("{name}: {receipts} receipts, {logged} logged attempts, {unsure} crashes or stops"));
    }
    let lost_replies = delivery.count(&[Class::Reset]);
    if delivery.taken > 1 + unsure + lost_replies {
        violations.push(format!("{name}: taken {} times without a cause", delivery.taken));
    }
    if !faults && delivery.receipts != 1 {
        violations.push(format!("{name}: {} receipts without any fault", delivery.receipts));
    }
    let mut tries = 0;
    for pair in delivery.attempts.windows(2) {
        let (earlier, later) = (pair[0], pair[1]);
        if matches!(earlier.class, Class::Abandoned | Class::Interrupted) {
            continue;
        }
        tries += 1;
        let ended = earlier.started_at.plus(earlier.duration);
        let least = retry_policy().delay(tries, Jitter::from_bits(0)).unwrap_or_default();
        if later.class != Class::Abandoned && later.started_at.since(ended) < least {
            violations.push(format!("{name}: retried after {:?} instead of {least:?}", later.started_at.since(ended)));
        }
    }
}
