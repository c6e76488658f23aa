//! How the environments on a node share its job slots.
//!
//! A job may keep its slot for minutes, and the node cannot take it away. Half of the slots are therefore promised, in
//! equal parts, to the environments with queues on this node; each gets at least one while they suffice. The other
//! half, the pool, is first come, first served. An environment whose jobs all hang fills the pool and its own promise,
//! and every other environment still runs jobs.
//!
//! Pure. `dispatch` asks before it starts a job, `engine::run::source` before it leases jobs. Taking and giving back
//! take logarithmic time.

use std::collections::BTreeMap;

use crate::id::EnvironmentId;

/// The environments of a node, and the slots or places that their jobs have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenants {
    slots: usize,
    places: usize,
    tenants: BTreeMap<EnvironmentId, Tenant>,
    /// The slots or places that all environments have together.
    taken: usize,
    /// The slots that are promised to all environments together and not taken yet.
    owed: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tenant {
    taken: usize,
    /// The slots that its queues could have together.
    most: usize,
}

impl Tenants {
    /// Returns an empty set of environments that share `slots`.
    pub fn new(slots: usize) -> Tenants {
        Tenants { slots, places: slots, tenants: BTreeMap::new(), taken: 0, owed: 0 }
    }

    /// Lets the environments share `places` instead of the slots. There are more places than slots if jobs are leased
    /// ahead. Half of the slots stay promised; all other places form the pool.
    #[must_use]
    pub fn with_places(self, places: usize) -> Tenants {
        Tenants { places, ..self }
    }

    /// Replaces the environments, each with the slots that its queues could have together. A removed environment stays
    /// until it has given all its slots back.
    pub fn replace(&mut self, most: &BTreeMap<EnvironmentId, usize>) {
        self.tenants.retain(|_, tenant| tenant.taken > 0);
        for tenant in self.tenants.values_mut() {
            tenant.most = 0;
        }
        for (environment, most) in most {
            self.tenants.entry(*environment).or_default().most = *most;
        }
        self.count_owed();
    }

    /// Takes one for an environment.
    pub fn take(&mut self, environment: EnvironmentId) {
        let (known, promise) = (self.tenants.len(), self.promise());
        let tenant = self.tenants.entry(environment).or_default();
        tenant.taken += 1;
        self.taken += 1;
        self.owed -= usize::from(tenant.taken <= promise.min(tenant.most));
        if self.tenants.len() > known {
            self.count_owed();
        }
    }

    /// Gives one back for an environment that took it.
    pub fn give_back(&mut self, environment: EnvironmentId) {
        let promise = self.promise();
        let tenant = self.tenants.get_mut(&environment).expect("an environment that has something is known");
        tenant.taken -= 1;
        self.taken -= 1;
        self.owed += usize::from(tenant.taken < promise.min(tenant.most));
    }

    /// Returns the free slots of the pool. A single environment may use all slots.
    pub fn pool(&self) -> usize {
        // With more environments than half of the slots, not all promises can be kept.
        let reserved = if self.tenants.len() < 2 { 0 } else { self.owed.min(self.slots / 2) };
        self.free().saturating_sub(reserved)
    }

    /// Returns the free slots that are promised to an environment.
    pub fn promised(&self, environment: EnvironmentId) -> usize {
        if self.tenants.len() < 2 {
            return 0;
        }
        self.tenants.get(&environment).map_or(0, |tenant| owed(tenant, self.promise())).min(self.free())
    }

    /// Whether an environment may have one more.
    pub fn has_capacity(&self, environment: EnvironmentId) -> bool {
        self.pool() > 0 || self.promised(environment) > 0
    }

    fn free(&self) -> usize {
        self.places.saturating_sub(self.taken)
    }

    /// Returns the number of slots that are promised to each environment.
    fn promise(&self) -> usize {
        (self.slots / 2 / self.tenants.len().max(1)).max(1)
    }

    fn count_owed(&mut self) {
        let promise = self.promise();
        self.owed = self.tenants.values().map(|tenant| owed(tenant, promise)).sum();
    }
}

fn owed(tenant: &Tenant, promise: usize) -> usize {
    promise.min(tenant.most).saturating_sub(tenant.taken)
}

/// Lowers `capacities` so that their sum is at most `total`, evenly.
pub fn split(mut total: usize, capacities: &mut [usize]) {
    let count = capacities.len();
    for (n, capacity) in capacities.iter_mut().enumerate() {
        *capacity = (*capacity).min(total.div_ceil(count - n));
        total -= *capacity;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants(slots: usize, taken: &[usize], most: usize) -> Tenants {
        let environments = (1..).map(EnvironmentId).zip(taken);
        let mut tenants = Tenants::new(slots);
        tenants.replace(&environments.clone().map(|(environment, _)| (environment, most)).collect());
        for (environment, taken) in environments {
            (0..*taken).for_each(|_| tenants.take(environment));
        }
        tenants
    }

    /// The pool, and the promises to environments 1, 2 and so on, each of which could have all slots.
    fn shares(slots: usize, taken: &[usize]) -> (usize, Vec<usize>) {
        let tenants = tenants(slots, taken, slots);
        let promised = (1..).map(EnvironmentId).take(taken.len()).map(|environment| tenants.promised(environment));
        (tenants.pool(), promised.collect())
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
        let (small, large) = (EnvironmentId(0), EnvironmentId(1));
        let mut tenants = Tenants::new(64);
        tenants.replace(&BTreeMap::from([(small, 1), (large, 64)]));
        (0..63).for_each(|_| tenants.take(large));
        assert_eq!((tenants.pool(), tenants.promised(small), tenants.promised(large)), (0, 1, 0));
        assert!(tenants.has_capacity(small) && !tenants.has_capacity(large));
    }

    #[test]
    fn places_ahead_are_for_anyone() {
        assert_eq!(tenants(64, &[30, 30], 64).with_places(164).pool(), 104);
    }

    #[test]
    fn an_environment_that_is_gone_is_forgotten_when_its_jobs_have_ended() {
        let mut tenants = tenants(8, &[2, 0], 8);
        let stays = BTreeMap::from([(EnvironmentId(2), 8)]);
        tenants.replace(&stays);
        assert_eq!((tenants.pool(), tenants.promised(EnvironmentId(2))), (4, 2), "it has two slots still");
        (0..2).for_each(|_| tenants.give_back(EnvironmentId(1)));
        tenants.replace(&stays);
        assert_eq!(tenants.pool(), 8, "one environment alone");
    }

    proptest::proptest! {
        /// The sums that are kept agree with those that are counted again.
        #[test]
        fn sums_are_kept(slots in 1_usize..20, steps in proptest::collection::vec((0_i32..5, 0_usize..4), 0..60)) {
            let mut tenants = Tenants::new(slots);
            for (environment, what) in steps {
                let has = |tenants: &Tenants, it| tenants.tenants.get(&it).is_some_and(|tenant| tenant.taken > 0);
                let environment = EnvironmentId(environment);
                match what {
                    0 => tenants.replace(&BTreeMap::from([(environment, slots), (EnvironmentId(1), 1)])),
                    1 if has(&tenants, environment) => tenants.give_back(environment),
                    _ => tenants.take(environment),
                }
                let mut counted = tenants.clone();
                counted.count_owed();
                proptest::prop_assert_eq!(&counted, &tenants);
                proptest::prop_assert_eq!(tenants.tenants.values().map(|it| it.taken).sum::<usize>(), tenants.taken);
            }
        }
    }

    #[test]
    fn rooms_are_lowered_evenly() {
        for (total, capacities, want) in [
            (10, vec![16, 16, 16], vec![4, 3, 3]),
            (10, vec![1, 16, 16], vec![1, 5, 4]),
            (2, vec![5, 5, 5], vec![1, 1, 0]),
            (99, vec![5, 5], vec![5, 5]),
            (0, vec![5], vec![0]),
            (7, vec![], vec![]),
        ] {
            let mut split = capacities.clone();
            super::split(total, &mut split);
            assert_eq!(split, want, "{total} for {capacities:?}");
        }
    }
}
