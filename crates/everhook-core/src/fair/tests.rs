use proptest::prelude::*;

use super::*;

const PLACES: usize = 1000;

fn group(environment: i32, number: u8) -> GroupId {
    GroupId { environment: EnvironmentId(environment), id: Id::from_bytes([number; 20]) }
}

fn lane(environment: i32, number: u8, lane: u8) -> GroupedLane {
    GroupedLane { group: group(environment, number), lane: LaneId(Id::from_bytes([lane; 20])) }
}

/// Lets groups take places one by one, in turns, until none of them gets more.
fn fill(fair: &mut Fair, groups: &[GroupId], trust: Trust) {
    loop {
        let before = fair.all.sum;
        for group in groups {
            if fair.room(PLACES, *group, trust) > 0 {
                fair.take(*group, trust, 1);
            }
        }
        if fair.all.sum == before {
            return;
        }
    }
}

fn filled(groups: &[GroupId], trust: Trust) -> Fair {
    let mut fair = Fair::default();
    fill(&mut fair, groups, trust);
    fair
}

#[test]
fn one_application_alone_gets_half_of_the_node() {
    assert_eq!(filled(&[group(1, 1)], Trust::Proven).all.sum, 500);
}

#[test]
fn a_newcomer_finds_places_beside_greedy_neighbours() {
    let fair = filled(&[group(1, 1)], Trust::Proven);
    assert_eq!(fair.room(PLACES, group(1, 2), Trust::Proven), 500, "the limit tightens while it takes them");
    let mut beside = fair.clone();
    fill(&mut beside, &[group(1, 2)], Trust::Proven);
    assert!(beside.has(group(1, 2)) >= 70, "{}", beside.has(group(1, 2)));
    let hundred: Vec<GroupId> = (1..=100).map(|number| group(1, number)).collect();
    let mut crowded = filled(&hundred, Trust::Proven);
    assert!(crowded.all.sum > 900, "{}", crowded.all.sum);
    fill(&mut crowded, &[group(1, 200)], Trust::Proven);
    assert!(crowded.has(group(1, 200)) >= 8, "{}", crowded.has(group(1, 200)));
}

#[test]
fn another_environment_finds_more_than_another_application() {
    let fair = filled(&[group(1, 1)], Trust::Proven);
    let (mut same, mut other) = (fair.clone(), fair);
    fill(&mut same, &[group(1, 2)], Trust::Proven);
    fill(&mut other, &[group(2, 2)], Trust::Proven);
    assert!(other.has(group(2, 2)) > 2 * same.has(group(1, 2)));
}

#[test]
fn hanging_lanes_of_many_applications_leave_half_of_the_node_to_others() {
    let all: Vec<GroupId> =
        (0..1000_u16).map(|number| GroupId { id: Id::derived(&[&number.to_be_bytes()]), ..group(1, 0) }).collect();
    let fair = filled(&all, Trust::Unproven);
    assert_eq!(fair.all.sum, 500);
    assert_eq!(fair.room(PLACES, group(1, 1), Trust::Unproven), 0);
    assert!(fair.room(PLACES, group(1, 1), Trust::Proven) > 0);
    assert_eq!(filled(&all, Trust::Suspect).all.sum, 250);
    assert_eq!(filled(&[group(1, 1)], Trust::Unproven).all.sum, 400, "one of them has four fifths of that");
    assert_eq!(filled(&[group(1, 1)], Trust::Suspect).all.sum, 125, "and half of the places of suspects");
}

#[test]
fn a_small_node_is_not_divided() {
    for places in 1..=16 {
        for trust in [Trust::Unproven, Trust::Suspect] {
            let mut fair = Fair::default();
            assert!(fair.room(places, group(1, 1), trust) > 0, "{places} {trust:?}");
            fair.take(group(1, 1), trust, 1);
            assert!(places == 1 || fair.room(places, group(2, 2), trust) > 0, "{places} {trust:?}");
        }
    }
}

#[test]
fn a_lease_serves_the_group_with_the_fewest_places_first() {
    let mut fair = Fair::default();
    fair.take(group(1, 1), Trust::Proven, 100);
    let lanes = [lane(1, 1, 1), lane(1, 1, 2), lane(1, 2, 3), lane(2, 3, 4)];
    let any = |_: &GroupedLane| (Trust::Proven, 20);
    assert_eq!(fair.clone().pick(PLACES, 8, &lanes, any), [0, 0, 0, 8], "the other environment");
    assert_eq!(fair.clone().pick(PLACES, 28, &lanes, any), [0, 0, 8, 20], "then the other application");
    assert_eq!(fair.clone().pick(PLACES, 56, &lanes, any), [8, 8, 20, 20], "lanes of a group take turns");
    assert_eq!(fair.pick(PLACES, 500, &lanes, any), [20, 20, 20, 20]);
    assert_eq!(fair.all.sum, 180, "they are taken");
}

/// Takes and gives back at random. Returns the places that each group has.
fn play(steps: &[(u8, u8, u8)]) -> (Fair, BTreeMap<(GroupId, u8), usize>) {
    let (mut fair, mut held) = (Fair::default(), BTreeMap::<(GroupId, u8), usize>::new());
    for (number, trust, what) in steps {
        let group = group(i32::from(number % 3), *number);
        let kind = [Trust::Proven, Trust::Unproven, Trust::Suspect][usize::from(trust % 3)];
        let has = held.entry((group, trust % 3)).or_default();
        if what % 4 == 0 && *has > 0 {
            fair.give_back(group, kind, 1);
            *has -= 1;
        } else {
            let room = fair.room(PLACES, group, kind).min(usize::from(*what));
            if room > 0 {
                fair.take(group, kind, room);
                *has += room;
            }
        }
    }
    (fair, held)
}

proptest! {
    #[test]
    fn nobody_takes_more_than_its_share(
        steps in prop::collection::vec((0_u8..40, any::<u8>(), any::<u8>()), 0..400),
    ) {
        let (fair, held) = play(&steps);
        prop_assert_eq!(fair.all.sum, held.values().sum::<usize>(), "counters equal the taken places");
        prop_assert!(fair.all.sum <= PLACES);
        for group in fair.groups.keys() {
            prop_assert!(fair.has(*group) <= PLACES / 2 + usize::from(u8::MAX));
        }
        prop_assert!(fair.all.by_trust[1] <= 500 && fair.all.by_trust[2] <= 250);
        // A newcomer with proven lanes is refused only by a full node.
        let room = fair.room(PLACES, group(9, 99), Trust::Proven);
        prop_assert_eq!(room > 0, fair.all.sum < PLACES);
    }
}
