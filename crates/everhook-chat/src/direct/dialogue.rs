//! The calls for one person, in order, and the meaning of their answers.

use std::time::Duration;

use everhook_core::chat::{ChatKind, ChatSecret};
use everhook_core::chat_app::{ChatApp, PersonAddress};
use everhook_core::outcome::{Class, Reply, SendFailure};
use everhook_core::time::Timestamp;
use serde_json::Value;

use super::Trouble;
use super::calls::{Ask, Audience, DirectCall, Parts, audience, needs_no_look_up};
use crate::notice::ChatText;
use crate::reply::{asked, brief};

/// Brings one message to one person.
pub struct Dialogue<'a> {
    app: &'a ChatApp,
    address: &'a PersonAddress,
    text: &'a ChatText,
    tokens: Vec<Held>,
    /// The person in the directory, where a conversation must be opened first.
    found: Option<String>,
    /// The person or the conversation that gets the message.
    to: Option<String>,
    asks_again: bool,
    /// A refused token is replaced once.
    is_renewed: bool,
    end: Option<Result<(), Trouble>>,
}

/// A token, and how long it may be used if it is new.
pub(super) struct Held {
    pub(super) audience: Audience,
    pub(super) text: String,
    pub(super) life: Option<Duration>,
}

pub enum Next {
    Call(DirectCall),
    End(Result<(), Trouble>),
}

/// An answer that is not a success.
enum Refusal {
    Token,
    /// WeCom may know the address as one of the other kind.
    NoSuchPerson(String),
    Trouble(Trouble),
}

impl<'a> Dialogue<'a> {
    /// `tokens` and `to` are known from earlier messages.
    pub(super) fn new(
        app: &'a ChatApp,
        address: &'a PersonAddress,
        text: &'a ChatText,
        mut tokens: Vec<Held>,
        to: Option<String>,
    ) -> Dialogue<'a> {
        if app.kind == ChatKind::Slack {
            let ChatSecret(token) = &app.secret;
            tokens = vec![Held { audience: Audience::Messages, text: token.clone(), life: None }];
        }
        let to = if needs_no_look_up(app.kind) { Some(address.to_string()) } else { to };
        Dialogue { app, address, text, tokens, found: None, to, asks_again: false, is_renewed: false, end: None }
    }

    pub fn next(&self) -> Next {
        match &self.end {
            Some(end) => Next::End(end.clone()),
            None => {
                let ask = self.ask();
                let token = audience(self.app.kind, ask).and_then(|wanted| self.token(wanted)).unwrap_or_default();
                let to = self.to.as_deref().or(self.found.as_deref()).unwrap_or_default();
                let Dialogue { app, address, text, .. } = *self;
                Next::Call(Parts { app, token, address, to, text }.call(ask))
            }
        }
    }

    /// Reads the answer to the last call.
    pub fn answered(&mut self, answer: &Result<Reply, SendFailure>, now: Timestamp) {
        let ask = self.ask();
        if let Err(refusal) = self.read(ask, answer, now) {
            self.refused(ask, refusal);
        }
    }

    /// The people and tokens of this dialogue, to be kept.
    pub(super) fn knowledge(&self) -> (&[Held], Option<&str>) {
        (&self.tokens, self.to.as_deref())
    }

    fn ask(&self) -> Ask {
        let ask = match (&self.to, &self.found) {
            (Some(_), _) => Ask::Send,
            (None, Some(_)) => Ask::Open,
            (None, None) => Ask::Find { again: self.asks_again },
        };
        match audience(self.app.kind, ask) {
            Some(audience) if self.token(audience).is_none() => Ask::Token(audience),
            _ => ask,
        }
    }

    fn token(&self, wanted: Audience) -> Option<&str> {
        self.tokens.iter().find(|held| held.audience == wanted).map(|held| held.text.as_str())
    }

    fn read(&mut self, ask: Ask, answer: &Result<Reply, SendFailure>, now: Timestamp) -> Result<(), Refusal> {
        let reply = match answer {
            Ok(reply) => reply,
            Err(failure) => return Err(failed(failure.class, failure.detail.clone())),
        };
        let json: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        check(self.app.kind, ask, reply, &json, now)?;
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let unreadable = || failed(Class::Status, format!("{} gave an answer that cannot be read", self.app.kind));
        match ask {
            Ask::Token(audience) => {
                let names = ["access_token", "tenant_access_token"];
                let token = names.iter().find_map(|name| text(&json[name])).ok_or_else(unreadable)?;
                let seconds = json["expires_in"].as_u64().or_else(|| json["expire"].as_u64()).unwrap_or(0);
                let life = Some(Duration::from_secs(seconds.min(24 * 60 * 60)));
                self.tokens.push(Held { audience, text: token, life });
            }
            Ask::Find { .. } => {
                let person = match self.app.kind {
                    ChatKind::Slack if json["user"]["deleted"] == true => None,
                    ChatKind::Slack => text(&json["user"]["id"]),
                    ChatKind::Teams => text(&json["value"][0]["id"]),
                    ChatKind::DingTalk => text(&json["result"]["userid"]),
                    _ => text(&json["userid"]),
                };
                let person = person.ok_or_else(|| Refusal::NoSuchPerson(NOBODY.to_owned()))?;
                if self.app.kind == ChatKind::Teams {
                    self.found = Some(person);
                } else {
                    self.to = Some(person);
                }
            }
            Ask::Open => self.to = Some(text(&json["id"]).ok_or_else(unreadable)?),
            Ask::Send => self.end = Some(Ok(())),
        }
        Ok(())
    }

    fn refused(&mut self, ask: Ask, refusal: Refusal) {
        let trouble = match refusal {
            Refusal::Token if !self.is_renewed && self.app.kind != ChatKind::Slack => {
                let refused = audience(self.app.kind, ask);
                self.tokens.retain(|held| Some(held.audience) != refused);
                self.is_renewed = true;
                return;
            }
            Refusal::Token => Trouble::Unreachable("the platform refuses the credentials of the app".to_owned()),
            Refusal::NoSuchPerson(_) if self.app.kind == ChatKind::WeCom && ask == (Ask::Find { again: false }) => {
                self.asks_again = true;
                return;
            }
            Refusal::NoSuchPerson(reason) => Trouble::Unreachable(reason),
            Refusal::Trouble(trouble) => trouble,
        };
        if matches!(trouble, Trouble::Unreachable(_)) && ask == Ask::Send {
            // The person may have left, so the next message looks again.
            self.to = None;
        }
        self.end = Some(Err(trouble));
    }
}

const NOBODY: &str = "the platform knows nobody with this address";

/// Reads whether a call succeeded, by the rule of the platform.
fn check(kind: ChatKind, ask: Ask, reply: &Reply, json: &Value, now: Timestamp) -> Result<(), Refusal> {
    let busy = || Refusal::Trouble(Trouble::Throttled(asked(reply, now)));
    let status = reply.status;
    if status == 429 {
        return Err(busy());
    }
    if status >= 500 {
        return Err(failed(Class::Status, format!("{kind} answered with status {status}")));
    }
    let unreachable = |reason: String| Refusal::Trouble(Trouble::Unreachable(reason));
    let code = |name: &str| json[name].as_i64();
    // The answer to a request for a token may repeat the secret, so only its code is shown.
    let said = |code: String, text: &Value| match (ask, text.as_str()) {
        (Ask::Token(_), _) => format!("the platform refuses the credentials of the app: {code}"),
        (_, Some(text)) => format!("{code}, {}", brief(text)),
        (_, None) => code,
    };
    match kind {
        ChatKind::Slack => match json["error"].as_str() {
            _ if json["ok"] == true => Ok(()),
            Some("ratelimited" | "rate_limited") => Err(busy()),
            Some("users_not_found" | "user_not_found") => Err(Refusal::NoSuchPerson(NOBODY.to_owned())),
            Some("internal_error" | "fatal_error" | "service_unavailable" | "request_timeout") | None => {
                Err(failed(Class::Status, format!("slack answered with status {status} and no success")))
            }
            Some("invalid_auth" | "not_authed" | "token_revoked" | "token_expired" | "account_inactive") => {
                Err(Refusal::Token)
            }
            Some(error) => Err(unreachable(brief(error))),
        },
        ChatKind::Teams => match status {
            200..=299 => Ok(()),
            401 if !matches!(ask, Ask::Token(_)) => Err(Refusal::Token),
            _ => {
                let error = if json["error"].is_object() { &json["error"]["code"] } else { &json["error"] };
                let code = error.as_str().map_or_else(|| format!("status {status}"), brief);
                Err(unreachable(said(code, &json["error"]["message"])))
            }
        },
        ChatKind::Feishu | ChatKind::Lark => match code("code") {
            Some(0) => Ok(()),
            Some(230_020 | 11_232 | 99_991_400) => Err(busy()),
            Some(99_991_661 | 99_991_663 | 99_991_664 | 99_991_668 | 99_991_671) if ask == Ask::Send => {
                Err(Refusal::Token)
            }
            Some(code) => Err(unreachable(said(format!("code {code}"), &json["msg"]))),
            None => Err(failed(Class::Status, format!("{kind} answered with status {status} and no code"))),
        },
        ChatKind::WeCom | ChatKind::DingTalk | ChatKind::Discord | ChatKind::GoogleChat => match code("errcode") {
            Some(0) if ask == Ask::Send && is_named(&json["invaliduser"]) => {
                Err(unreachable("the app may not write to this person".to_owned()))
            }
            Some(0) => Ok(()),
            Some(-1) => Err(failed(Class::Status, format!("{kind} is busy"))),
            Some(45_009 | 45_033 | 88 | 90_018) => Err(busy()),
            Some(46_004 | 60_111 | 60_121 | 40_104) => Err(Refusal::NoSuchPerson(NOBODY.to_owned())),
            Some(40_014 | 42_001 | 41_001) if !matches!(ask, Ask::Token(_)) => Err(Refusal::Token),
            Some(code) => Err(unreachable(said(format!("code {code}"), &json["errmsg"]))),
            None => Err(failed(Class::Status, format!("{kind} answered with status {status} and no code"))),
        },
    }
}

fn is_named(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn failed(class: Class, reason: String) -> Refusal {
    Refusal::Trouble(Trouble::Failed { class, reason })
}
