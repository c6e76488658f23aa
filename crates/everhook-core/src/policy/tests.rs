use std::time::Duration;

use proptest::prelude::*;

use super::effective::{Level, Levels, ServerDefaults};
use super::*;
use crate::retry::Jitter;

fn settings(json: &str) -> Settings {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

#[track_caller]
fn refused(json: &str, want: &str) {
    assert_eq!(settings(json).check().unwrap_err().to_string(), want, "{json}");
}

fn server() -> ServerDefaults {
    ServerDefaults { retry: RetryPolicy::default(), timeout: Duration::from_secs(15) }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Resolves endpoint, application and environment; an empty text is a level without settings.
#[track_caller]
fn check(levels: [&str; 3], event_type: &str, want: &str) {
    let owned = levels.map(|json| (!json.is_empty()).then(|| settings(json)));
    let [endpoint, application, environment] = owned.each_ref().map(Option::as_ref);
    let levels = Levels { endpoint, application, environment };
    let effective = levels.effective(Some(&name(event_type)), &server());
    let origin = |level: Level, for_type: bool| format!("{level:?}{}", if for_type { "+type" } else { "" });
    let got = format!(
        "{} attempts ({}), {} s ({}), budget {:?} ({}), paused {} ({})",
        effective.max_attempts.value,
        origin(effective.max_attempts.origin.level, effective.max_attempts.origin.for_type),
        effective.timeout.value.as_secs(),
        origin(effective.timeout.origin.level, effective.timeout.origin.for_type),
        effective.retry_budget.value,
        origin(effective.retry_budget.origin.level, false),
        effective.paused.value,
        origin(effective.paused.origin.level, false),
    );
    assert_eq!(got, want);
    let policy = levels.attempt_policy(&name(event_type), &server().retry);
    let attempts = effective.max_attempts.value.min(effective.retry_budget.value.map_or(u32::MAX, |budget| budget + 1));
    assert_eq!(policy.retry.attempts_max(), attempts, "both resolutions agree");
    assert_eq!(policy.timeout.unwrap_or(server().timeout), effective.timeout.value, "both resolutions agree");
}

#[test]
fn the_most_specific_level_decides_each_setting() {
    check(["", "", ""], "a", "10 attempts (Server), 15 s (Server), budget None (Server), paused false (Server)");
    check(
        [
            r#"{"timeoutSeconds": 5}"#,
            r#"{"timeoutSeconds": 6, "retry": {"maxAttempts": 3}}"#,
            r#"{"retry": {"maxAttempts": 4}}"#,
        ],
        "a",
        "3 attempts (Application), 5 s (Endpoint), budget None (Server), paused false (Server)",
    );
}

#[test]
fn settings_of_an_event_type_outrank_the_others_of_their_level_only() {
    let of_type = r#"{"timeoutSeconds": 7, "eventTypes": {"a": {"timeoutSeconds": 8, "retry": {"maxAttempts": 2}}}}"#;
    check(
        [of_type, "", ""],
        "a",
        "2 attempts (Endpoint+type), 8 s (Endpoint+type), budget None (Server), paused false (Server)",
    );
    check([of_type, "", ""], "b", "10 attempts (Server), 7 s (Endpoint), budget None (Server), paused false (Server)");
    check(
        [r#"{"timeoutSeconds": 5}"#, of_type, ""],
        "a",
        "2 attempts (Application+type), 5 s (Endpoint), budget None (Server), paused false (Server)",
    );
}

#[test]
fn a_level_with_a_back_off_sets_the_number_of_attempts_too() {
    let outer = r#"{"retry": {"maxAttempts": 7}}"#;
    check(
        [r#"{"retry": {"backoff": [1, 2]}}"#, outer, ""],
        "a",
        "3 attempts (Endpoint), 15 s (Server), budget None (Server), paused false (Server)",
    );
    check(
        [r#"{"retry": {"backoff": {"baseSeconds": 1, "capSeconds": 2}}}"#, outer, ""],
        "a",
        "10 attempts (Endpoint), 15 s (Server), budget None (Server), paused false (Server)",
    );
    check(
        [r#"{"retry": {"backoff": [1, 2], "maxAttempts": 5}}"#, outer, ""],
        "a",
        "5 attempts (Endpoint), 15 s (Server), budget None (Server), paused false (Server)",
    );
}

#[test]
fn a_server_without_delays_makes_one_attempt_whatever_the_number() {
    let server = ServerDefaults { retry: RetryPolicy::new(Vec::new()).unwrap(), ..server() };
    let own = settings(r#"{"retry": {"maxAttempts": 3}}"#);
    let levels = Levels { endpoint: Some(&own), application: None, environment: None };
    assert_eq!(levels.effective(None, &server).max_attempts.value, 1);
    assert_eq!(levels.attempt_policy(&name("a"), &server.retry).retry.attempts_max(), 1);
}

#[test]
fn the_lowest_budget_and_every_pause_apply() {
    check(
        [r#"{"retryBudget": 5, "paused": false}"#, r#"{"paused": true}"#, r#"{"retryBudget": 0}"#],
        "a",
        "10 attempts (Server), 15 s (Server), budget Some(0) (Environment), paused true (Application)",
    );
}

#[test]
fn a_setting_can_be_switched_off_below_a_level_that_has_it() {
    let environment = settings(r#"{"rate": {"count": 5, "seconds": 1}, "concurrency": 3, "breaker": {}}"#);
    let endpoint = settings(r#"{"rate": "none", "breaker": "none"}"#);
    let levels = Levels { endpoint: Some(&endpoint), application: None, environment: Some(&environment) };
    let effective = levels.effective(None, &server());
    assert_eq!((effective.rate.value, effective.rate.origin.level), (None, Level::Endpoint));
    assert_eq!((effective.concurrency.value, effective.concurrency.origin.level), (Some(3), Level::Environment));
    assert_eq!(effective.breaker.value, None);
    assert_eq!(effective.disable_after.value, Some(Duration::from_secs(432_000)));
}

#[test]
fn settings_read_as_they_were_written() {
    let text = concat!(
        r#"{"retry":{"backoff":[5,60],"maxAttempts":4,"jitterPercent":0,"finalStatuses":[400,"5xx"]},"timeoutSeconds":9,"#,
        r#""eventTypes":{"a.b":{"timeoutSeconds":3}},"retryBudget":0,"rate":{"count":1,"seconds":60},"concurrency":"none","#,
        r#""breaker":{"failurePercent":50,"minAttempts":20,"windowSeconds":60,"openSeconds":30,"maxOpenSeconds":300},"#,
        r#""disableAfterSeconds":86400,"paused":true,"whileDisabled":"hold","ordering":{"key":"/a"},"onDead":"block","#,
        r#""legacySignature":{"header":"x-sig","encoding":"base64","signedText":"{body}","value":"{signature}"}}"#,
    );
    let read = settings(text);
    assert_eq!(read.check(), Ok(()));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    assert_eq!(settings(r#"{"ordering": "endpoint"}"#).ordering, Some(Switch::On(Ordering::Endpoint)));
    assert_eq!(settings(r#"{"ordering": "none"}"#).ordering, Some(Switch::Off));
    assert!(settings("{}").is_empty());
}

#[test]
fn bad_settings_name_the_field() {
    refused(r#"{"retry": {"backoff": []}}"#, "retry.backoff a retry schedule requires at least one delay");
    refused(r#"{"retry": {"backoff": [90000]}}"#, "retry.backoff a retry delay must be at most 86400 seconds");
    refused(r#"{"retry": {"maxAttempts": 0}}"#, "retry.maxAttempts the number of attempts must be 1 to 101");
    refused(r#"{"retry": {"jitterPercent": 101}}"#, "retry.jitterPercent must be at most 100");
    refused(
        r#"{"retry": {"finalStatuses": [400, 429]}}"#,
        "retry.finalStatuses[1] must not be 429, which asks for a later attempt",
    );
    refused(r#"{"retry": {"finalStatuses": [204]}}"#, "retry.finalStatuses[0] must be 300 to 599");
    refused(r#"{"retry": {"finalStatuses": ["2xx"]}}"#, r#"retry.finalStatuses[0] must be "3xx", "4xx" or "5xx""#);
    refused(r#"{"timeoutSeconds": 0}"#, "timeoutSeconds must be 1 to 120");
    refused(r#"{"eventTypes": {"a.b": {"timeoutSeconds": 121}}}"#, "eventTypes.a.b.timeoutSeconds must be 1 to 120");
    refused(r#"{"retryBudget": 101}"#, "retryBudget must be at most 100");
    refused(r#"{"rate": {"count": 0, "seconds": 1}}"#, "rate.count must be 1 to 100000");
    refused(r#"{"rate": {"count": 1, "seconds": 0}}"#, "rate.seconds must be 1 to 86400");
    refused(r#"{"concurrency": 0}"#, r#"concurrency must be 1 to 10000, or "none""#);
    refused(r#"{"breaker": {"failurePercent": 0}}"#, "breaker.failurePercent must be 1 to 100");
    refused(r#"{"breaker": {"openSeconds": 400}}"#, "breaker.maxOpenSeconds must not be less than openSeconds");
    refused(r#"{"disableAfterSeconds": 1}"#, r#"disableAfterSeconds must be 5 to 7776000, or "none""#);
    refused(r#"{"ordering": {"key": "a"}}"#, r#"ordering.key must be a JSON pointer, such as "/customerId""#);
    refused(
        r#"{"legacySignature": {"header": "host"}}"#,
        "legacySignature.header must not be a header that every delivery has",
    );
}

#[test]
fn four_hundreds_are_final_only_if_listed_and_never_those_that_ask_for_later() {
    let list = |json| serde_json::from_str::<FinalStatuses>(json).unwrap();
    assert!(!FinalStatuses::default().contains(400));
    for (status, want) in [(400, true), (404, true), (408, false), (425, false), (429, false), (500, false)] {
        assert_eq!(list(r#"["4xx"]"#).contains(status), want, "{status}");
    }
    assert!(list("[422]").contains(422) && !list("[422]").contains(400));
}

proptest! {
    #[test]
    fn jitter_stays_within_its_share(percent in 0_u8..=100, bits: u64) {
        let policy = RetryPolicy::with(Backoff::List(vec![Duration::from_secs(100)]), 2).unwrap().with_jitter(percent);
        let delay = policy.delay(1, Jitter::from_bits(bits)).unwrap().as_secs_f64();
        prop_assert!((delay - 100.0).abs() <= f64::from(percent) + 1e-6, "{delay}");
    }

    #[test]
    fn a_budget_only_ever_lowers_the_number_of_attempts(attempts in 1_u32..=101, budget in 0_u32..=100) {
        let json = format!(r#"{{"retry": {{"maxAttempts": {attempts}}}, "retryBudget": {budget}}}"#);
        let own = settings(&json);
        let levels = Levels { endpoint: Some(&own), application: None, environment: None };
        let policy = levels.attempt_policy(&name("a"), &server().retry);
        prop_assert_eq!(policy.retry.attempts_max(), attempts.min(budget + 1));
    }
}
