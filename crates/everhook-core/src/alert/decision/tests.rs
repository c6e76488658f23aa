//! Tests of the states of an alert: single steps by example, and its promises for random values.

use proptest::prelude::*;

use super::*;
use crate::alert::tests::rule;

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Evaluates values at times in seconds, and lists the pages.
fn pages(rule: &AlertRule, values: impl IntoIterator<Item = (u64, f64)>) -> Vec<(u64, DuePage)> {
    let (mut state, mut pages) = (AlertState::default(), Vec::new());
    for (second, value) in values {
        let now = START.plus(Duration::from_secs(second));
        let (next, page) = decide(rule, &state, Amount::new(value), now);
        state = next;
        pages.extend(page.map(|page| (second, page)));
    }
    pages
}

#[track_caller]
fn check(json: &str, values: &[(u64, f64)], want: &str) {
    let show = |(second, page): &(u64, DuePage)| {
        format!("{second} {}{}", page.kind.as_str(), if page.escalated { "!" } else { "" })
    };
    let got: Vec<_> = pages(&rule(json), values.iter().copied()).iter().map(show).collect();
    assert_eq!(got.join(", "), want, "{json}");
}

#[test]
fn an_alert_is_triggered_ongoing_and_resolved() {
    let values: Vec<_> = (0..=80).map(|step| (step * 60, if step < 70 { 11.0 } else { 10.0 })).collect();
    check("{}", &values, "60 triggered, 3660 ongoing, 4500 resolved");
}

#[test]
fn a_short_excess_causes_no_page() {
    check("{}", &[(0, 11.0), (30, 11.0), (40, 3.0), (60, 11.0), (119, 11.0), (120, 3.0)], "");
}

#[test]
fn a_short_recovery_resolves_nothing() {
    check("{}", &[(0, 11.0), (60, 11.0), (70, 3.0), (369, 3.0), (370, 11.0), (400, 3.0), (699, 3.0)], "60 triggered");
}

#[test]
fn conditions_compare_with_the_threshold() {
    let now = r#"{"forSeconds": 0, "resolveAfterSeconds": 0}"#;
    check(now, &[(0, 10.0), (1, 10.1), (2, 10.0)], "1 triggered, 2 resolved");
    let below = r#"{"condition": "below", "forSeconds": 0, "resolveAfterSeconds": 0}"#;
    check(below, &[(0, 10.0), (1, 9.9), (2, 10.0)], "1 triggered, 2 resolved");
    let change = r#"{"condition": "change", "windowSeconds": 120, "forSeconds": 0, "resolveAfterSeconds": 0}"#;
    check(
        change,
        &[(0, 50.0), (60, 60.0), (70, 61.0), (150, 61.0), (181, 71.0), (200, 50.0)],
        "70 triggered, 150 resolved, 200 triggered",
    );
}

#[test]
fn a_signal_without_a_value_holds_no_condition() {
    let rule = rule(r#"{"condition": "below", "forSeconds": 0}"#);
    assert_eq!(decide(&rule, &AlertState::default(), None, START), (AlertState::default(), None));
}

#[test]
fn a_disabled_rule_forgets_its_state() {
    let rule = rule(r#"{"disabled": true, "forSeconds": 0}"#);
    let state = AlertState { phase: AlertPhase::Pending { since: START }, samples: Vec::new() };
    assert_eq!(decide(&rule, &state, Amount::new(11.0), START), (AlertState::default(), None));
}

#[test]
fn an_escalation_reaches_more_people_by_time_or_by_count() {
    let values: Vec<_> = (0..=10).map(|step| (step * 600, 11.0)).chain([(6600, 3.0), (6900, 3.0)]).collect();
    let by_time = r#"{"forSeconds": 0, "escalation": {"afterSeconds": 1800, "destinations": ["boss"]}}"#;
    check(by_time, &values, "0 triggered, 1800 ongoing!, 5400 ongoing!, 6900 resolved!");
    let by_count =
        r#"{"forSeconds": 0, "cooldownSeconds": 1200, "escalation": {"afterOngoing": 3, "destinations": ["boss"]}}"#;
    check(
        by_count,
        &values,
        "0 triggered, 1200 ongoing, 2400 ongoing, 3600 ongoing!, 4800 ongoing!, 6000 ongoing!, 6900 resolved!",
    );
}

#[test]
fn the_state_survives_a_round_trip() {
    let (state, _) = decide(&rule(r#"{"forSeconds": 0}"#), &AlertState::default(), Amount::new(11.0), START);
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<AlertState>(&text).unwrap(), state, "{text}");
}

fn histories() -> impl Strategy<Value = Vec<(u64, f64)>> {
    proptest::collection::vec((1_u64..200, 0_u32..20), 1..200).prop_map(|steps| {
        let mut second = 0;
        let place = |(wait, value): (u64, u32)| {
            second += wait;
            (second, f64::from(value))
        };
        steps.into_iter().map(place).collect()
    })
}

fn rules() -> impl Strategy<Value = AlertRule> {
    (0_u32..300, 0_u32..300, 1_u32..1000, prop_oneof!["above", "below", "change"], 0_u32..6).prop_map(
        |(hold, resolve, cooldown, condition, after)| {
            let window = if condition == "change" { 300.into() } else { serde_json::Value::Null };
            let escalation = (after > 0).then(|| serde_json::json!({ "afterOngoing": after, "destinations": ["a"] }));
            let members = serde_json::json!({
                "condition": condition, "windowSeconds": window, "forSeconds": hold, "resolveAfterSeconds": resolve,
                "cooldownSeconds": cooldown, "escalation": escalation,
            });
            rule(&members.to_string())
        },
    )
}

proptest! {
    /// Every alert is triggered, then perhaps ongoing, then resolved, and pages keep their distances.
    #[test]
    fn pages_come_in_order_and_at_a_distance(rule in rules(), history in histories()) {
        let mut last: Option<(u64, DuePage)> = None;
        for (second, page) in pages(&rule, history) {
            let follows = matches!(
                (last.map(|(_, page)| page.kind), page.kind),
                (None | Some(PageKind::Resolved), PageKind::Triggered)
                    | (Some(PageKind::Triggered | PageKind::Ongoing), PageKind::Ongoing | PageKind::Resolved)
            );
            prop_assert!(follows, "{last:?} then {page:?}");
            let distance = match page.kind {
                PageKind::Triggered => rule.for_seconds,
                PageKind::Ongoing => rule.cooldown_seconds,
                PageKind::Resolved => rule.resolve_after_seconds,
            };
            let since = last.map_or(0, |(second, _)| second);
            prop_assert!(second - since >= u64::from(distance), "{page:?} at {second} after {last:?}");
            prop_assert!(!page.escalated || rule.escalation.is_some());
            last = Some((second, page));
        }
    }

    /// A state that was not stored decides the same page again: a failed page is not lost.
    #[test]
    fn a_page_that_failed_is_due_again(rule in rules(), history in histories()) {
        let mut state = AlertState::default();
        for (second, value) in history {
            let at = |second| START.plus(Duration::from_secs(second));
            let (next, page) = decide(&rule, &state, Amount::new(value), at(second));
            if let Some(page) = page {
                // A second later, the value that a change is compared with may have left the window.
                let later = if rule.condition == AlertCondition::Change { second } else { second + 1 };
                let (_, again) = decide(&rule, &state, Amount::new(value), at(later));
                prop_assert_eq!(again.map(|again| again.kind), Some(page.kind));
            }
            prop_assert!(next.samples.len() <= ALERT_SAMPLES_MAX as usize + 1);
            state = next;
        }
    }
}
