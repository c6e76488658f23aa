use proptest::prelude::*;

use super::*;
use crate::id::Id;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn schedule(cadence: Cadence) -> Schedule {
    Schedule::new(ScheduleId(Id::from_bytes([7; 20])), cadence)
}

fn cron(text: &str, zone: &str) -> Schedule {
    schedule(Cadence::Cron { cron: text.parse().unwrap(), zone: zone.parse().unwrap() })
}

fn every(secs: u64, anchor: &str) -> Schedule {
    schedule(Cadence::Every { every: Duration::from_secs(secs), anchor: at(anchor) })
}

/// Returns the next local times with their offsets: "03-29 03:00+02".
fn times(schedule: &Schedule, after: &str, count: usize) -> String {
    let Cadence::Cron { zone, .. } = &schedule.cadence else { panic!("not a cron") };
    let times = schedule.upcoming(at(after), count);
    let show = |time: &Timestamp| {
        let zoned = jiff::Timestamp::from_microsecond(time.as_micros()).unwrap().to_zoned(zone.as_jiff().clone());
        zoned.strftime("%m-%d %H:%M%:z").to_string()
    };
    times.iter().map(show).collect::<Vec<_>>().join(", ")
}

#[track_caller]
fn check(text: &str, zone: &str, after: &str, want: &str) {
    let count = want.split(", ").count();
    assert_eq!(times(&cron(text, zone), after, count), want);
}

#[test]
fn plain_days() {
    check("30 4 * * *", "UTC", "2026-01-01T00:00:00Z", "01-01 04:30+00:00, 01-02 04:30+00:00");
    check("30 4 * * *", "UTC", "2026-01-01T04:30:00Z", "01-02 04:30+00:00");
    check("30 4 * * *", "UTC", "2026-01-01T04:29:59.999999Z", "01-01 04:30+00:00");
    check("0 9 * * MON-FRI", "Asia/Tokyo", "2026-01-02T00:00:00Z", "01-05 09:00+09:00, 01-06 09:00+09:00");
    check("0 0 31 * *", "UTC", "2026-01-31T00:00:00Z", "03-31 00:00+00:00, 05-31 00:00+00:00");
    check("@monthly", "UTC", "2026-12-15T00:00:00Z", "01-01 00:00+00:00, 02-01 00:00+00:00");
}

#[test]
fn six_fields_run_on_seconds() {
    let schedule = cron("*/20 59 23 * * *", "UTC");
    let times = schedule.upcoming(at("2026-01-01T23:59:10Z"), 3);
    assert_eq!(times, ["2026-01-01T23:59:20Z", "2026-01-01T23:59:40Z", "2026-01-02T23:59:00Z"].map(at));
}

#[test]
fn two_restricted_day_fields_are_one_or_the_other() {
    // 13 February 2026 is a Friday.
    check("0 0 13 * FRI", "UTC", "2026-02-10T00:00:00Z", "02-13 00:00+00:00, 02-20 00:00+00:00, 02-27 00:00+00:00");
    check("0 0 13 * FRI", "UTC", "2026-04-11T00:00:00Z", "04-13 00:00+00:00, 04-17 00:00+00:00");
    // A field that starts with a star leaves the choice to the other: odd days that are Mondays.
    check("0 0 */2 * MON", "UTC", "2026-02-01T00:00:00Z", "02-09 00:00+00:00, 02-23 00:00+00:00, 03-09 00:00+00:00");
}

#[test]
fn the_rarest_date_is_found_and_the_end_of_the_calendar_too() {
    let leap = cron("0 0 29 2 *", "Europe/Berlin");
    assert_eq!(leap.next_after(at("2096-03-01T00:00:00Z")), Some(at("2104-02-28T23:00:00Z")));
    let sunday = cron("0 0 29 2 */7", "America/New_York");
    assert_eq!(sunday.next_after(at("2088-03-01T00:00:00Z")), Some(at("2128-02-29T05:00:00Z")));
    assert_eq!(leap.next_after(at("9996-03-01T00:00:00Z")), None);
    assert_eq!(leap.next_after(Timestamp::NEVER), None);
    assert_eq!(leap.next_after(Timestamp::from_micros(i64::MIN)), None);
}

#[test]
fn what_falls_into_the_gap_runs_once_after_it() {
    let eve = "2026-03-28T12:00:00Z";
    check("30 2 * * *", "Europe/Berlin", eve, "03-29 03:00+02:00, 03-30 02:30+02:00");
    check("15,45 2 * * *", "Europe/Berlin", eve, "03-29 03:00+02:00, 03-30 02:15+02:00");
    check("0 2,3 * * *", "Europe/Berlin", eve, "03-29 03:00+02:00, 03-30 02:00+02:00");
    check("30 2,3 * * *", "Europe/Berlin", eve, "03-29 03:00+02:00, 03-29 03:30+02:00, 03-30 02:30+02:00");
    check("30 1 * * *", "Europe/Berlin", eve, "03-29 01:30+01:00, 03-30 01:30+02:00");
    check("0 */2 * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", "03-29 03:00+02:00, 03-29 04:00+02:00");
    check("*/15 2 * * *", "Europe/Berlin", eve, "03-29 03:00+02:00, 03-30 02:00+02:00");
    check("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "03-08 03:00-04:00, 03-09 02:30-04:00");
    // The gap is half an hour: 02:00 becomes 02:30.
    check("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "10-04 02:30+11:00, 10-05 02:15+11:00");
    check("30 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "10-04 02:30+11:00, 10-05 02:30+11:00");
    check("45 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "10-04 02:45+11:00, 10-05 02:45+11:00");
}

#[test]
fn a_search_that_begins_just_before_or_at_the_change() {
    check("30 2 * * *", "Europe/Berlin", "2026-03-29T00:59:59.5Z", "03-29 03:00+02:00");
    check("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "03-30 02:30+02:00");
    check("30 2 * * *", "Europe/Berlin", "2026-10-25T00:29:59Z", "10-25 02:30+02:00");
    check("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "10-26 02:30+01:00");
    check("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "10-26 02:30+01:00");
}

#[test]
fn a_gap_at_midnight_does_not_lose_the_day() {
    check("0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", "09-06 01:00-03:00, 09-07 00:00-03:00");
    check("@daily", "Africa/Cairo", "2026-04-23T12:00:00Z", "04-24 01:00+03:00, 04-25 00:00+03:00");
    check("30 0 * * *", "Asia/Beirut", "2026-03-28T12:00:00Z", "03-29 01:00+03:00, 03-30 00:30+03:00");
    // The named day has no midnight.
    check("0 0 6 9 *", "America/Santiago", "2026-09-05T12:00:00Z", "09-06 01:00-03:00");
}

#[test]
fn a_day_that_a_country_left_out_runs_after_it() {
    check("0 12 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z", "12-31 00:00+14:00, 12-30 12:00+14:00");
}

#[test]
fn what_comes_twice_runs_once() {
    let eve = "2026-10-24T12:00:00Z";
    check("30 2 * * *", "Europe/Berlin", eve, "10-25 02:30+02:00, 10-26 02:30+01:00");
    check("*/30 2 * * *", "Europe/Berlin", eve, "10-25 02:00+02:00, 10-25 02:30+02:00, 10-26 02:00+01:00");
    check("0 3 * * *", "Europe/Berlin", eve, "10-25 03:00+01:00, 10-26 03:00+01:00");
    check("0 1,2,3 * * *", "Europe/Berlin", eve, "10-25 01:00+02:00, 10-25 02:00+02:00, 10-25 03:00+01:00");
    check("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "11-01 01:30-04:00, 11-02 01:30-05:00");
    check("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "04-05 01:45+11:00, 04-06 01:45+10:30");
    check("30 23 * * *", "America/Santiago", "2026-04-04T12:00:00Z", "04-04 23:30-03:00, 04-05 23:30-04:00");
}

#[test]
fn an_expression_for_every_hour_follows_the_time_that_passes() {
    // The gap is not caught up: an hour lies between 01:30 and 03:30.
    check("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "03-29 01:30+01:00, 03-29 03:30+02:00");
    check(
        "*/15 * * * *",
        "Europe/Berlin",
        "2026-03-29T00:40:00Z",
        "03-29 01:45+01:00, 03-29 03:00+02:00, 03-29 03:15+02:00",
    );
    // The overlap causes no pause of an hour.
    check(
        "0 * * * *",
        "Europe/Berlin",
        "2026-10-24T23:30:00Z",
        "10-25 02:00+02:00, 10-25 02:00+01:00, 10-25 03:00+01:00",
    );
    check(
        "*/30 * * * *",
        "America/New_York",
        "2026-11-01T05:10:00Z",
        "11-01 01:30-04:00, 11-01 01:00-05:00, 11-01 01:30-05:00, 11-01 02:00-05:00",
    );
    // Half an hour repeats: 01:30 to 02:00.
    check(
        "*/15 * * * *",
        "Australia/Lord_Howe",
        "2026-04-04T14:20:00Z",
        "04-05 01:30+11:00, 04-05 01:45+11:00, 04-05 01:30+10:30, 04-05 01:45+10:30, 04-05 02:00+10:30",
    );
    // The second pass of the only matching day is not skipped, even if the next one is far away.
    check(
        "30 * 4 4 *",
        "America/Santiago",
        "2026-04-05T02:00:00Z",
        "04-04 23:30-03:00, 04-04 23:30-04:00, 04-04 00:30-04:00",
    );
    check("0 0-23 * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", "10-25 02:00+02:00, 10-25 02:00+01:00");
}

#[test]
fn an_unknown_zone_is_refused_and_a_known_one_keeps_its_name() {
    let error = "Europe/Atlantis".parse::<Zone>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown time zone \"Europe/Atlantis\", expected an IANA name such as \"Europe/Berlin\""
    );
    assert!("".parse::<Zone>().is_err());
    assert!("+02:00".parse::<Zone>().is_err());
    assert!("../etc/passwd".parse::<Zone>().is_err());
    for name in ["Europe/Berlin", "America/Argentina/Buenos_Aires", "UTC"] {
        assert_eq!(name.parse::<Zone>().unwrap().as_str(), name);
    }
}

#[test]
fn an_interval_counts_from_its_anchor() {
    let schedule = every(90, "2026-01-01T00:00:10Z");
    assert_eq!(schedule.next_after(at("2025-01-01T00:00:00Z")), Some(at("2026-01-01T00:00:10Z")));
    assert_eq!(schedule.next_after(at("2026-01-01T00:00:10Z")), Some(at("2026-01-01T00:01:40Z")));
    assert_eq!(schedule.next_after(at("2026-01-01T00:01:39.999999Z")), Some(at("2026-01-01T00:01:40Z")));
    assert_eq!(schedule.next_after(Timestamp::NEVER), None);
}

#[test]
fn start_is_inclusive_and_end_exclusive() {
    let bounded = Schedule {
        starts_at: Some(at("2026-01-02T00:00:00Z")),
        ends_at: Some(at("2026-01-04T00:00:00Z")),
        ..cron("@daily", "UTC")
    };
    let times = bounded.upcoming(at("2020-01-01T00:00:00Z"), 5);
    assert_eq!(times, ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"].map(at));
}

#[test]
fn numbers_beyond_their_limits_are_refused() {
    let good = every(60, "2026-01-01T00:00:00Z");
    assert_eq!(good.check(), Ok(()));
    let fraction = Cadence::Every { every: Duration::from_millis(1500), anchor: Timestamp::default() };
    assert_eq!(schedule(fraction).check(), Err(BadSchedule::Every));
    assert_eq!(every(0, "2026-01-01T00:00:00Z").check(), Err(BadSchedule::Every));
    assert_eq!(Schedule { jitter: Duration::from_secs(86_401), ..good.clone() }.check(), Err(BadSchedule::Jitter));
    assert_eq!(Schedule { grace: Duration::from_secs(86_401), ..good.clone() }.check(), Err(BadSchedule::Grace));
    assert_eq!(Schedule { missed: Missed::CatchUp(0), ..good.clone() }.check(), Err(BadSchedule::CatchUp));
    assert_eq!(Schedule { missed: Missed::CatchUp(101), ..good.clone() }.check(), Err(BadSchedule::CatchUp));
    let day = at("2026-01-02T00:00:00Z");
    assert_eq!(Schedule { starts_at: Some(day), ends_at: Some(day), ..good }.check(), Err(BadSchedule::Ends));
}

#[test]
fn policies_are_read_as_they_were_kept() {
    for missed in [Missed::Skip, Missed::RunOnce, Missed::CatchUp(7)] {
        let (which, count) = missed.to_db();
        assert_eq!(Missed::from_db(which, count), Some(missed));
    }
    assert_eq!(Missed::from_db(3, 0), None);
}

#[test]
fn jitter_depends_on_the_schedule_and_the_time_alone() {
    let jittered = Schedule { jitter: Duration::from_secs(600), ..cron("@hourly", "UTC") };
    let nominal = at("2026-01-01T05:00:00Z");
    // A fixed value: another one would make replicas of two versions disagree during an upgrade.
    assert_eq!(jittered.due_at(nominal).to_string(), "2026-01-01T05:00:49.977954Z");
    let other = Schedule { id: ScheduleId(Id::from_bytes([8; 20])), ..jittered.clone() };
    assert_ne!(other.due_at(nominal), jittered.due_at(nominal));
}

/// Zones with every kind of change, and a week around each.
const WEEKS: [(&str, &str); 14] = [
    ("Europe/Berlin", "2026-03-26T00:00:00Z"),
    ("Europe/Berlin", "2026-10-22T00:00:00Z"),
    ("America/New_York", "2026-03-05T00:00:00Z"),
    ("America/New_York", "2026-10-29T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-01T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-02T00:00:00Z"),
    ("America/Santiago", "2026-09-03T00:00:00Z"),
    ("America/Santiago", "2026-04-02T00:00:00Z"),
    ("Africa/Cairo", "2026-04-22T00:00:00Z"),
    ("Africa/Casablanca", "2026-02-13T00:00:00Z"),
    ("Asia/Beirut", "2026-10-22T00:00:00Z"),
    ("Pacific/Apia", "2011-12-27T00:00:00Z"),
    ("Asia/Kathmandu", "2026-05-01T00:00:00Z"),
    ("UTC", "2026-12-29T00:00:00Z"),
];

fn field(min: u8, max: u8) -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("*".to_owned()),
        4 => (min..=max).prop_map(|value| value.to_string()),
        2 => (2..20_u8).prop_map(|step| format!("*/{step}")),
        2 => (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (min..=max, min..=max, 1..7_u8).prop_map(|(a, b, c)| format!("{},{}-{}/{c}", b, a.min(b), a.max(b))),
    ]
}

fn expression() -> impl Strategy<Value = Cron> {
    // Hours around the changes are more likely, or most cases would miss them.
    let hours = prop_oneof![2 => field(0, 23), 2 => field(0, 4), 1 => Just("0".to_owned())];
    let fields = (field(0, 59), hours, field(1, 31), field(1, 12), field(0, 7));
    fields.prop_filter_map("never runs", |(minute, hour, day, month, weekday)| {
        format!("{minute} {hour} {day} {month} {weekday}").parse().ok()
    })
}

/// Finds every fire of a week by testing each minute, without the code under test.
fn by_brute_force(cron: &Cron, zone: &Zone, from: Timestamp) -> Vec<Timestamp> {
    const MINUTE: Duration = Duration::from_secs(60);
    let minutes = || std::iter::successors(Some(from.plus(MINUTE)), |at| Some(at.plus(MINUTE))).take(7 * 24 * 60);
    let mut shown = zone.local(from);
    let mut fires = Vec::new();
    for at in minutes() {
        let local = zone.local(at);
        if cron.is_every_hour() {
            fires.extend(cron.admits(local).then_some(at));
            continue;
        }
        // The clock has shown all times up to `shown`. Each step adds one minute, several in a gap, none in an overlap.
        let mut hit = false;
        while shown < local {
            shown = shown.checked_add(jiff::Span::new().minutes(1)).unwrap();
            hit |= cron.admits(shown);
        }
        fires.extend(hit.then_some(at));
    }
    fires
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_left_out_and_nothing_is_added(cron in expression(), week in 0..WEEKS.len(), shift in 0_u64..1440) {
        let (zone, from) = WEEKS[week];
        let zone: Zone = zone.parse().unwrap();
        let from = at(from).plus(Duration::from_secs(shift * 60));
        let until = from.plus(Duration::from_secs(7 * 24 * 3600));
        let want = by_brute_force(&cron, &zone, from);
        let schedule = schedule(Cadence::Cron { cron, zone });
        let upcoming = std::iter::successors(schedule.next_after(from), |at| schedule.next_after(*at));
        let got: Vec<Timestamp> = upcoming.take_while(|at| *at <= until).collect();
        prop_assert_eq!(got, want);
    }

    #[test]
    fn times_only_grow_and_are_admitted(cron in expression(), week in 0..WEEKS.len(), after in 0_i64..4_102_444_800) {
        let zone: Zone = WEEKS[week].0.parse().unwrap();
        let after = Timestamp::from_micros(after * 1_000_000 + 17);
        let schedule = schedule(Cadence::Cron { cron: cron.clone(), zone: zone.clone() });
        let mut last = after;
        for next in schedule.upcoming(after, 20) {
            prop_assert!(next > last);
            let a_moment_before = zone.local(next.minus(Duration::from_secs(1)));
            let is_after_gap = a_moment_before.checked_add(jiff::Span::new().seconds(1)).unwrap() < zone.local(next);
            prop_assert!(cron.admits(zone.local(next)) || is_after_gap && !cron.is_every_hour());
            // The next time is the same from any point in between.
            let middle = last.plus(next.since(last) / 2);
            prop_assert_eq!(schedule.next_after(middle), Some(next));
            last = next;
        }
    }

    #[test]
    fn an_interval_only_grows_and_keeps_to_its_grid(secs in 1_u64..1_000_000, anchor: i32, after: i32) {
        let anchor = Timestamp::from_micros(i64::from(anchor) * 1000);
        let schedule = schedule(Cadence::Every { every: Duration::from_secs(secs), anchor });
        let after = Timestamp::from_micros(i64::from(after) * 1000);
        let next = schedule.next_after(after).unwrap();
        prop_assert!(next > after && next >= anchor);
        prop_assert_eq!((next.as_micros() - anchor.as_micros()) % (i64::try_from(secs).unwrap() * 1_000_000), 0);
        prop_assert!(next == anchor || next.since(after) <= Duration::from_secs(secs));
    }

    #[test]
    fn jitter_changes_no_order(cron in expression(), jitter in 1_u64..86_400, after in 0_i64..4_102_444_800) {
        let cadence = Cadence::Cron { cron, zone: "Europe/Berlin".parse().unwrap() };
        let schedule = Schedule { jitter: Duration::from_secs(jitter), ..schedule(cadence) };
        let times = schedule.upcoming(Timestamp::from_micros(after * 1_000_000), 5);
        for pair in times.windows(2) {
            prop_assert!(pair[0] <= schedule.due_at(pair[0]));
            prop_assert!(schedule.due_at(pair[0]) <= pair[1]);
            prop_assert!(schedule.due_at(pair[0]).since(pair[0]) <= schedule.jitter);
        }
    }
}
