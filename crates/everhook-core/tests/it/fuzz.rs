//! Every parser of outside input gets mutated samples: it may refuse them, and must not panic, hang or change its mind.
//!
//! The short run is part of the tests and has a fixed seed. The long run is for people:
//! `cargo test --release -p everhook-core --test it -- --ignored --nocapture fuzz`. A failure names the parser, the seed
//! and the input.

use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use everhook_core::api_key::ApiKey;
use everhook_core::delivery::DeliveryKey;
use everhook_core::endpoint::EndpointKey;
use everhook_core::endpoint_auth::Token;
use everhook_core::failure_group::GroupKey;
use everhook_core::filter::TypePattern;
use everhook_core::filter::expression::Expression;
use everhook_core::id::{ApplicationId, Id, MessageId};
use everhook_core::integration::IntegrationKey;
use everhook_core::name::Name;
use everhook_core::openapi;
use everhook_core::outcome::{Reply, Wish, classify};
use everhook_core::policy::Settings;
use everhook_core::policy::statuses::FinalStatuses;
use everhook_core::poll::PollIterator;
use everhook_core::schedule::cron::Cron;
use everhook_core::signing::SigningKey;
use everhook_core::time::Timestamp;
use everhook_core::verify::VerifyingKey;

const SHORT: usize = 2_000;
const LONG: usize = 2_000_000;

/// A parser with samples that it accepts.
struct Target {
    name: &'static str,
    samples: &'static [&'static str],
    run: fn(&[u8]),
}

const TARGETS: &[Target] = &[
    Target { name: "id", samples: &["2srOrx2ZWZBpBUvZwXKQmoEYga2"], run: |bytes| shown::<Id>(bytes) },
    Target {
        name: "application",
        samples: &["app_2srOrx2ZWZBpBUvZwXKQmoEYga2"],
        run: |bytes| shown::<ApplicationId>(bytes),
    },
    Target { name: "message", samples: &["msg_2srOrx2ZWZBpBUvZwXKQmoEYga2"], run: |bytes| shown::<MessageId>(bytes) },
    Target {
        name: "endpoint key",
        samples: &["app_2srOrx2ZWZBpBUvZwXKQmoEYga2.ep_2srOrx2ZWZBpBUvZwXKQmoEYga2"],
        run: |bytes| shown::<EndpointKey>(bytes),
    },
    Target { name: "delivery key", samples: &["1.2srOrx2ZWZBpBUvZwXKQmoEYga2"], run: parsed::<DeliveryKey> },
    Target { name: "group key", samples: &["ep_2srOrx2ZWZBpBUvZwXKQmoEYga2.5xx"], run: parsed::<GroupKey> },
    Target { name: "poll iterator", samples: &["2srOrx2ZWZBpBUvZwXKQmoEYga2", "start"], run: parsed::<PollIterator> },
    Target { name: "name", samples: &["invoice.paid", "a-b_c.D9"], run: |bytes| shown::<Name>(bytes) },
    Target { name: "type pattern", samples: &["invoice.*", "a.*.b", "*"], run: |bytes| shown::<TypePattern>(bytes) },
    Target {
        name: "filter",
        samples: &["payload.a > 100 && tags.exists(t, t == 'x')", "has(payload.b) ? size(payload.b) : 0 == 1"],
        run: |bytes| drop(text(bytes).map(Expression::compile)),
    },
    Target { name: "cron", samples: &["*/5 1-4,6 * * MON#2", "@daily", "0 0 L 2 *"], run: parsed::<Cron> },
    Target {
        name: "time",
        samples: &["2026-01-31T12:00:00.123456Z", "2026-01-31 12:00:00 UTC", "2026-01-31T12:00:00+02:00"],
        run: |bytes| shown::<Timestamp>(bytes),
    },
    Target { name: "signing key", samples: &["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"], run: parsed::<SigningKey> },
    Target { name: "verifying key", samples: &["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"], run: parsed::<VerifyingKey> },
    Target { name: "API key", samples: &["ehk_0000000000000000000000000000000000000000"], run: parsed::<ApiKey> },
    Target {
        name: "integration key",
        samples: &["integsk_000000000000000000000000000"],
        run: parsed::<IntegrationKey>,
    },
    Target {
        name: "wish",
        samples: &["disable", "abort-message"],
        run: |bytes| {
            let _ = text(bytes).map(Wish::parse);
        },
    },
    Target {
        name: "token reply",
        samples: &[r#"{"access_token": "t", "token_type": "Bearer", "expires_in": 3600}"#],
        run: |bytes| drop(Token::read(bytes)),
    },
    Target {
        name: "policy",
        samples: &[
            r#"{"retry": {"backoff": [5, 60], "finalStatuses": [400, "4xx"]}, "timeoutSeconds": 20, "rate": "none"}"#,
        ],
        run: |bytes| {
            let read = serde_json::from_slice::<Settings>(bytes);
            drop(read.map(|settings| settings.check()));
        },
    },
    Target {
        name: "openapi",
        samples: &[r#"{"openapi": "3.1.0", "webhooks": {"a.b": {"post": {"description": "d", "requestBody": {}}}}}"#],
        run: |bytes| drop(serde_json::from_slice(bytes).map(|document| openapi::event_types(&document))),
    },
    Target { name: "retry-after", samples: &["120", "Wed, 21 Oct 2026 07:28:00 GMT"], run: retry_after },
];

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn parsed<T: FromStr>(bytes: &[u8]) {
    drop(text(bytes).map(T::from_str));
}

/// An accepted value is written in a form that means the same value.
fn shown<T: FromStr + Display + PartialEq + Debug>(bytes: &[u8]) {
    if let Some(Ok(value)) = text(bytes).map(T::from_str) {
        let again = T::from_str(&value.to_string()).ok();
        assert_eq!(again.as_ref(), Some(&value));
    }
}

fn retry_after(bytes: &[u8]) {
    let retry_after = text(bytes).map(str::to_owned);
    let reply = Reply { status: 503, retry_after, wish: None, body: Default::default() };
    classify(&Ok(reply), Timestamp::from_micros(1_790_000_000_000_000), &FinalStatuses::default());
}

/// A small generator with a visible state (xorshift64*).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn mutate(&mut self, samples: &[&str]) -> Vec<u8> {
        const TOKENS: [&str; 16] = [
            "",
            "\0",
            "é",
            "\u{202e}",
            "-1",
            "99999999999999999999",
            "*",
            "..",
            "{",
            "[",
            "\"",
            "\\u0000",
            "/0",
            "'",
            "(",
            "T",
        ];
        let mut input = samples[self.below(samples.len())].as_bytes().to_vec();
        for _ in 0..=self.below(6) {
            let at = self.below(input.len() + 1);
            match self.below(6) {
                0 if at < input.len() => input[at] ^= 1 << self.below(8),
                1 if at < input.len() => drop(input.remove(at)),
                2 => input.insert(at, self.below(256) as u8),
                3 => drop(input.splice(at..at, TOKENS[self.below(TOKENS.len())].bytes())),
                4 => {
                    let piece = input[self.below(at + 1)..at].to_vec();
                    drop(input.splice(at..at, piece));
                }
                _ => input.truncate(self.below(input.len() + 1).max(input.len() / 2)),
            }
        }
        input
    }
}

fn run(rounds: usize, seed: u64) {
    for target in TARGETS {
        let mut chance = Chance(seed);
        for sample in target.samples {
            (target.run)(sample.as_bytes());
        }
        for round in 0..rounds {
            let input = chance.mutate(target.samples);
            let ended = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
            let shown = String::from_utf8_lossy(&input).into_owned();
            assert!(ended.is_ok(), "{} failed in round {round} of seed {seed}: {shown:?}", target.name);
        }
    }
}

#[test]
fn no_parser_panics_on_mutated_input() {
    run(SHORT, 0x9e37_79b9_7f4a_7c15);
}

#[test]
#[ignore = "takes minutes; for people"]
fn fuzz_for_long() {
    run(LONG, 0x1234_5678_9abc_def1);
}
