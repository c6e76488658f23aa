//! The parsers of outside input, for the short run in the tests and for `cargo xtask fuzz`.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use everhook_chat::direct;
use everhook_chat::reply::judge;
use everhook_chat::template;
use everhook_core::api_key::ApiKey;
use everhook_core::chat::{Chat, ChatKind, Template};
use everhook_core::chat_app::PersonAddress;
use everhook_core::delivery::DeliveryKey;
use everhook_core::endpoint::EndpointKey;
use everhook_core::endpoint_auth::Token;
use everhook_core::failure_group::GroupKey;
use everhook_core::filter::TypePattern;
use everhook_core::filter::expression::Expression;
use everhook_core::id::{ApplicationId, EnvironmentId, Id, MessageId};
use everhook_core::integration::IntegrationKey;
use everhook_core::name::Name;
use everhook_core::openapi;
use everhook_core::outcome::{Reply, Wish, classify};
use everhook_core::policy::Settings;
use everhook_core::policy::statuses::FinalStatuses;
use everhook_core::poll::PollIterator;
use everhook_core::schedule::cron::Cron;
use everhook_core::seal::{SealKey, SealRing, SealedAt};
use everhook_core::signing::SigningKey;
use everhook_core::time::Timestamp;
use everhook_core::trace::TraceContext;
use everhook_core::verify::VerifyingKey;
use everhook_sender::egress::Egress;

/// A parser with samples that it accepts.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) samples: &'static [&'static str],
    pub(crate) run: fn(&[u8]),
}

pub(crate) const TARGETS: &[Target] = &[
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
    Target {
        name: "trace context",
        samples: &["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
        run: |bytes| shown::<TraceContext>(bytes),
    },
    Target {
        name: "URL",
        samples: &["https://example.com:8443/a?b=c", "http://[2001:db8::1]/", "https://xn--bcher-kva.example/"],
        run: |bytes| drop(text(bytes).map(|text| Egress::default().check_url(text))),
    },
    Target {
        name: "key file",
        samples: &["# first\nehs_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"],
        run: |bytes| drop(text(bytes).map(SealRing::parse)),
    },
    Target {
        name: "sealed text",
        samples: &["sealed:1:0000000000000000:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="],
        run: |bytes| {
            let ring = SealRing::new(SealKey::new([7; 32]));
            if let Ok(plain) =
                ring.open(SealedAt { column: "resource.spec", environment: EnvironmentId(1), row: b"row" }, bytes)
            {
                assert_eq!(plain, bytes, "only a plain text opens without its key");
            }
        },
    },
    Target {
        name: "chat template",
        samples: &["{{ payload.a | upper }}", "{% for a in payload.b %}{{ a }}{% endfor %}"],
        run: |bytes| {
            let Some(title) = text(bytes) else { return };
            let template = Template { title: Some(title.to_owned()), ..Template::default() };
            drop(template::check(&Chat { template, ..Chat::new(ChatKind::Slack) }));
        },
    },
    Target {
        name: "chat reply",
        samples: &[
            "ok",
            r#"{"errcode": 45009, "errmsg": "x"}"#,
            r#"{"code": 19001}"#,
            "HTTP error 429",
            r#"{"retry_after": 1.5}"#,
        ],
        run: chat_reply,
    },
    Target {
        name: "people",
        samples: &[r#"{"a": "ann@example.com"}"#, r#"{"a": ["+8613800138000", 7]}"#],
        run: |bytes| {
            let chat = Chat { people: Some("/a".to_owned()), ..Chat::new(ChatKind::DingTalk) };
            assert!(direct::people(&chat, bytes).addresses.len() <= 10);
            drop(text(bytes).map(|text| PersonAddress::read(ChatKind::Slack, text)));
        },
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

fn chat_reply(bytes: &[u8]) {
    for kind in ChatKind::ALL {
        for status in [200, 400, 429, 500] {
            let body = bytes.to_vec().into();
            let reply = Reply { status, retry_after: None, wish: None, body };
            judge(kind, "https://a.office.com/", &Ok(reply), Timestamp::default(), &FinalStatuses::default());
        }
    }
}
