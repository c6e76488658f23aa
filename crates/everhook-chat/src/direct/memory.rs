//! The memory of one node between direct messages: tokens, people, and who got which delivery. Lost on a restart.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use everhook_core::chat_app::{ChatApp, PersonAddress};
use everhook_core::id::{Id, TaskId};

use super::Trouble;
use super::calls::Audience;
use super::dialogue::{Dialogue, Held};
use crate::notice::ChatText;

/// Times are on the node's monotonic clock.
#[derive(Default)]
pub struct DirectMemory {
    tokens: HashMap<(Id, Audience), (String, Duration)>,
    people: HashMap<(Id, PersonAddress), (Result<String, String>, Duration)>,
    /// The people whom an earlier attempt of a delivery has reached.
    reached: HashMap<TaskId, BTreeSet<PersonAddress>>,
}

const TOKENS_MAX: usize = 1_000;
const PEOPLE_MAX: usize = 10_000;
const REACHED_MAX: usize = 1_000;
/// A person whom the platform knows.
const PERSON_LIFE: Duration = Duration::from_secs(60 * 60);
/// A person whom the platform does not know, who may be added soon.
const NOBODY_LIFE: Duration = Duration::from_secs(60);
/// A token is replaced before it expires, because a call takes time.
const TOKEN_MARGIN: Duration = Duration::from_secs(60);

impl DirectMemory {
    /// Begins a dialogue with the remembered person and tokens. `Err` repeats an answer of the platform that is still
    /// fresh.
    pub fn begin<'a>(
        &self,
        app: &'a ChatApp,
        address: &'a PersonAddress,
        text: &'a ChatText,
        now: Duration,
    ) -> Result<Dialogue<'a>, Trouble> {
        let id = app.id();
        let person = self.people.get(&(id, address.clone())).filter(|(_, until)| now < *until);
        let to = match person {
            Some((Ok(person), _)) => Some(person.clone()),
            Some((Err(reason), _)) => return Err(Trouble::Unreachable(reason.clone())),
            None => None,
        };
        let token = |audience| {
            let (text, until) = self.tokens.get(&(id, audience))?;
            (now < *until).then(|| Held { audience, text: text.clone(), life: None })
        };
        let tokens = [Audience::Directory, Audience::Messages].into_iter().filter_map(token).collect();
        Ok(Dialogue::new(app, address, text, tokens, to))
    }

    /// Stores the person and the tokens of an ended dialogue.
    pub fn learn(
        &mut self,
        app: &ChatApp,
        address: &PersonAddress,
        dialogue: (&Dialogue<'_>, &Result<(), Trouble>),
        now: Duration,
    ) {
        let (dialogue, end) = dialogue;
        let id = app.id();
        let (tokens, to) = dialogue.knowledge();
        for audience in [Audience::Directory, Audience::Messages] {
            match tokens.iter().find(|held| held.audience == audience) {
                Some(Held { text, life: Some(life), .. }) => {
                    make_room(&mut self.tokens, TOKENS_MAX, |(_, until)| now < *until);
                    self.tokens.insert((id, audience), (text.clone(), now + life.saturating_sub(TOKEN_MARGIN)));
                }
                Some(_) => {}
                None => drop(self.tokens.remove(&(id, audience))),
            }
        }
        let key = (id, address.clone());
        let person = match (to, end) {
            (Some(to), _) => Some((Ok(to.to_owned()), now + PERSON_LIFE)),
            (None, Err(Trouble::Unreachable(reason))) => Some((Err(reason.clone()), now + NOBODY_LIFE)),
            (None, _) => None,
        };
        match person {
            Some(person) => {
                make_room(&mut self.people, PEOPLE_MAX, |(_, until)| now < *until);
                self.people.insert(key, person);
            }
            None => drop(self.people.remove(&key)),
        }
    }

    /// Whether an earlier attempt of the delivery has reached this person.
    pub fn has_reached(&self, delivery: TaskId, address: &PersonAddress) -> bool {
        self.reached.get(&delivery).is_some_and(|people| people.contains(address))
    }

    pub fn reached(&mut self, delivery: TaskId, address: &PersonAddress) {
        make_room(&mut self.reached, REACHED_MAX, |_| false);
        self.reached.entry(delivery).or_default().insert(address.clone());
    }

    /// Forgets a delivery that has ended.
    pub fn ended(&mut self, delivery: TaskId) {
        self.reached.remove(&delivery);
    }
}

/// Drops the entries that do not stay if the map is full, and all if that is not enough.
fn make_room<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, max: usize, stays: impl Fn(&V) -> bool) {
    if map.len() >= max {
        map.retain(|_, value| stays(value));
    }
    if map.len() >= max {
        map.clear();
    }
}
