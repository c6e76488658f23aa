//! Fair sharing of a node's job slots among environments.
//!
//! A job may occupy its slot for minutes and is never preempted. Therefore half of the slots are reserved, in equal
//! shares for the environments with queues on this node, at least one slot each while slots last. The other half, the
//! pool, is first come, first served. An environment whose jobs all hang fills the pool and its own share; every other
//! environment still runs jobs.
//!
//! Pure. `engine::jobs` calls it before a lease and before the start of a job.

use std::collections::BTreeMap;

use crate::id::EnvironmentId;

/// An environment with queues on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tenant {
    pub running: usize,
    /// Slots that all its queues together may use.
    pub most: usize,
}

/// Free slots of a node, by who may use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Free slots for any environment.
    pub pool: usize,
    /// Reserved and unused slots by environment. Environments without any are absent.
    pub promised: BTreeMap<EnvironmentId, usize>,
}

impl Shares {
    /// Whether the environment may use one more slot.
    pub fn has_room(&self, environment: EnvironmentId) -> bool {
        self.pool > 0 || self.promised.contains_key(&environment)
    }
}

/// Divides `places` among the environments; half of `slots` are reserved. Jobs leased ahead make `places` larger than
/// `slots`. A single environment gets everything.
pub fn share_out(slots: usize, places: usize, tenants: &BTreeMap<EnvironmentId, Tenant>) -> Shares {
    let free = places.saturating_sub(tenants.values().map(|tenant| tenant.running).sum());
    if tenants.len() < 2 {
        return Shares { pool: free, promised: BTreeMap::new() };
    }
    let promise = (slots / 2 / tenants.len()).max(1);
    let owed = |tenant: &Tenant| promise.min(tenant.most).saturating_sub(tenant.running);
    let promised: BTreeMap<_, _> = tenants.iter().map(|(environment, tenant)| (*environment, owed(tenant))).collect();
    // With more environments than reserved slots, some shares cannot be honoured. Half of the slots stay in the pool
    // regardless.
    let reserved = promised.values().sum::<usize>().min(slots / 2);
    let promised = promised.into_iter().map(|(environment, owed)| (environment, owed.min(free)));
    Shares { pool: free.saturating_sub(reserved), promised: promised.filter(|(_, owed)| *owed > 0).collect() }
}

/// Lowers `rooms` to a sum of at most `total`, as evenly as possible.
pub fn split(mut total: usize, rooms: &mut [usize]) {
    let count = rooms.len();
    for (n, room) in rooms.iter_mut().enumerate() {
        // The first lanes take the rounded-up share; later lanes share the rest.
        *room = (*room).min(total.div_ceil(count - n));
        total -= *room;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Result of `share_out` for environments 1, 2, … with this many running jobs; each may use all slots.
    fn shares(slots: usize, running: &[usize]) -> (usize, Vec<usize>) {
        let tenant = |running: &usize| Tenant { running: *running, most: slots };
        let tenants = (1..).map(EnvironmentId).zip(running.iter().map(tenant)).collect();
        let Shares { pool, promised } = share_out(slots, slots, &tenants);
        let of = |n: usize| promised.get(&EnvironmentId(n as i32 + 1)).copied().unwrap_or(0);
        (pool, (0..running.len()).map(of).collect())
    }

    #[test]
    fn one_environment_has_all_slots() {
        assert_eq!(shares(64, &[0]), (64, vec![0]));
        assert_eq!(shares(64, &[64]), (0, vec![0]));
        assert_eq!(shares(64, &[]), (64, vec![]));
    }

    #[test]
    fn half_of_the_slots_are_promised_evenly() {
        assert_eq!(shares(64, &[0, 0]), (32, vec![16, 16]));
        assert_eq!(shares(64, &[10, 0]), (32, vec![6, 16]));
        assert_eq!(shares(64, &[48, 0]), (0, vec![0, 16]), "it has its promise and the pool");
        assert_eq!(shares(64, &[40, 0, 0, 0]), (0, vec![0, 8, 8, 8]));
        assert_eq!(shares(64, &[0; 10]), (64 - 30, vec![3; 10]));
    }

    #[test]
    fn whoever_runs_nothing_gets_a_slot_as_far_as_they_go() {
        let (pool, promised) = shares(4, &[2, 0, 0]);
        assert_eq!((pool, promised), (0, vec![0, 1, 1]));
        let (pool, promised) = shares(8, &[0; 20]);
        assert_eq!((pool, promised), (4, vec![1; 20]), "more environments than promises");
        assert_eq!(shares(1, &[0, 0]), (1, vec![1, 1]));
        assert_eq!(shares(1, &[1, 0]), (0, vec![0, 0]));
    }

    #[test]
    fn no_more_is_promised_than_queues_could_have() {
        let small = Tenant { running: 0, most: 1 };
        let tenants = BTreeMap::from([(EnvironmentId(0), small), (EnvironmentId(1), Tenant { running: 63, most: 64 })]);
        let shares = share_out(64, 64, &tenants);
        assert_eq!(shares, Shares { pool: 0, promised: BTreeMap::from([(EnvironmentId(0), 1)]) });
        assert!(shares.has_room(EnvironmentId(0)) && !shares.has_room(EnvironmentId(1)));
    }

    #[test]
    fn places_ahead_are_for_anyone() {
        let tenants = (1..=2).map(|n| (EnvironmentId(n), Tenant { running: 30, most: 64 })).collect();
        assert_eq!(share_out(64, 164, &tenants).pool, 104);
    }

    #[test]
    fn rooms_are_lowered_evenly() {
        for (total, rooms, want) in [
            (10, vec![16, 16, 16], vec![4, 3, 3]),
            (10, vec![1, 16, 16], vec![1, 5, 4]),
            (2, vec![5, 5, 5], vec![1, 1, 0]),
            (99, vec![5, 5], vec![5, 5]),
            (0, vec![5], vec![0]),
            (7, vec![], vec![]),
        ] {
            let mut split = rooms.clone();
            super::split(total, &mut split);
            assert_eq!(split, want, "{total} for {rooms:?}");
        }
    }
}
