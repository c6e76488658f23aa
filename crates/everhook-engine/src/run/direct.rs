//! Direct messages of chat endpoints: makes the calls that `everhook_chat::direct` asks for.
//!
//! The calls pass the egress rules like every other request. Each node remembers tokens, people, and whom it has
//! reached, so that a repeated attempt does not write to the same person again. Another node may.

use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use everhook_chat::direct::{
    DirectBody, DirectCall, DirectEnd, DirectMemory, Next, PersonResult, Trouble, conclude, people, report,
};
use everhook_chat::notice::{ChatFacts, ChatText, notice};
use everhook_chat::reply::Judgement;
use everhook_core::chat::Chat;
use everhook_core::chat_app::{ChatApp, PersonAddress};
use everhook_core::exchange::Exchange;
use everhook_core::id::EnvironmentId;
use everhook_core::outcome::{Class, Outcome, Reply, SendFailure};
use everhook_core::scope::Scope;
use everhook_core::task::Task;
use everhook_sender::Request;
use everhook_store::query;
use everhook_store::store::Reads;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};

use crate::node::Node;
use crate::run::outbound::{self, Sent, header};
use crate::session::Session;

#[derive(Default)]
pub(crate) struct DirectMessages {
    memory: Mutex<DirectMemory>,
}

/// The result of the direct messages of one attempt.
pub(crate) enum DirectTalk {
    /// The room gets the message. The remark names the people who were not reached.
    Room(Option<String>),
    /// The attempt ends without a post to the room.
    Ended(Judgement),
    Stopped(Sent),
}

impl DirectMessages {
    fn lock(&self) -> MutexGuard<'_, DirectMemory> {
        self.memory.lock().expect("nothing panics while it holds this lock")
    }

    /// Writes to the people that the payload names. `number` is 1 for the first attempt.
    pub(crate) async fn talk(
        &self,
        node: &Node,
        (chat, facts): (&Chat, ChatFacts<'_>),
        (task, number): (&Task, u32),
        session: &Session,
    ) -> DirectTalk {
        let people = people(chat, facts.payload);
        if people.addresses.is_empty() && people.unreadable.is_empty() {
            return DirectTalk::Room(None);
        }
        let app = match find_app(node, task.key.environment, chat).await {
            Ok(Some(app)) => app,
            Ok(None) => {
                let kind = chat.kind;
                let remark =
                    format!("direct messages: the environment has no app of {kind}, so the message goes to the room");
                return DirectTalk::Room(Some(remark));
            }
            Err(judgement) => return DirectTalk::Ended(judgement),
        };
        let text = ChatText { mentions: Vec::new(), ..notice(chat, &facts).notice };
        let mut results = people.unreadable;
        for address in &people.addresses {
            let result = if self.lock().has_reached(task.key.id, address) {
                Ok(())
            } else {
                match self.reach(node, &app, (address, &text), Some(session)).await {
                    Ok(result) => result,
                    Err(stopped) => return DirectTalk::Stopped(stopped),
                }
            };
            if result.is_ok() {
                self.lock().reached(task.key.id, address);
            }
            results.push((address.to_string(), result));
        }
        self.concluded(chat, (task, number), &results)
    }

    /// Forgets whom a delivery has reached, because it has ended. Sent again, it writes to everybody.
    pub(crate) fn ended(&self, task: &Task) {
        self.lock().ended(task.key.id);
    }

    fn concluded(&self, chat: &Chat, (task, number): (&Task, u32), results: &[PersonResult]) -> DirectTalk {
        match conclude(chat.kind, results, number) {
            DirectEnd::Reached => {
                self.ended(task);
                let explanation = report(results);
                DirectTalk::Ended(Judgement { class: Class::Success, outcome: Outcome::Success, explanation })
            }
            DirectEnd::Room => DirectTalk::Room(Some(format!("{}; the message goes to the room", report(results)))),
            DirectEnd::Later(judgement) => DirectTalk::Ended(judgement),
        }
    }

    /// Writes to one person. `Err` is the end of the attempt. A test by an operator has no session.
    pub(crate) async fn reach(
        &self,
        node: &Node,
        app: &ChatApp,
        (address, text): (&PersonAddress, &ChatText),
        session: Option<&Session>,
    ) -> Result<Result<(), Trouble>, Sent> {
        let begun = self.lock().begin(app, address, text, node.clock.elapsed());
        let mut dialogue = match begun {
            Ok(dialogue) => dialogue,
            Err(trouble) => return Ok(Err(trouble)),
        };
        loop {
            match dialogue.next() {
                Next::Call(call) => {
                    let answer = make(node, call, session).await?;
                    dialogue.answered(&answer, node.clock.now());
                }
                Next::End(end) => {
                    self.lock().learn(app, address, (&dialogue, &end), node.clock.elapsed());
                    return Ok(end);
                }
            }
        }
    }
}

async fn find_app(node: &Node, environment: EnvironmentId, chat: &Chat) -> Result<Option<ChatApp>, Judgement> {
    let apps = node.store.read(query::FindChatApps { scope: Scope::of(environment) }).await;
    let unread = |error| Judgement {
        class: Class::Internal,
        outcome: Outcome::Failure { retry_after: None },
        explanation: format!("could not read the chat apps of the environment: {error}"),
    };
    Ok(apps.map_err(unread)?.and_then(|apps| apps.of(chat.kind).cloned()))
}

async fn make(node: &Node, call: DirectCall, session: Option<&Session>) -> Result<Result<Reply, SendFailure>, Sent> {
    let request = match request(node, call) {
        Ok(request) => request,
        Err(failure) => return Ok(Err(failure)),
    };
    let sent = match session {
        Some(session) => outbound::send(node, request, session, &mut Exchange::default()).await,
        None => Sent::Answered(node.try_send(request).await),
    };
    match sent {
        Sent::Answered(answer) => Ok(answer),
        ended => Err(ended),
    }
}

fn request(node: &Node, call: DirectCall) -> Result<Request, SendFailure> {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, node.user_agent.clone());
    if let Some(bearer) = call.bearer {
        headers.insert(AUTHORIZATION, header(format!("Bearer {bearer}"))?);
    }
    let (content_type, body) = match call.body {
        DirectBody::Empty => (None, Bytes::new()),
        DirectBody::Form(form) => (Some("application/x-www-form-urlencoded"), form.into()),
        DirectBody::Json(json) => (Some("application/json; charset=utf-8"), json.to_string().into()),
    };
    if let Some(content_type) = content_type {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    let method = if call.is_get { Method::GET } else { Method::POST };
    Ok(Request { method, url: call.url, headers, body, patience: None, auth: None })
}

impl Node {
    /// Writes to one person once, for a test by an operator. `Err` says in words why the person got nothing.
    pub async fn try_direct(&self, app: &ChatApp, address: &PersonAddress, text: &ChatText) -> Result<(), String> {
        match self.direct.reach(self, app, (address, text), None).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(trouble)) => Err(match trouble {
                Trouble::Unreachable(reason) | Trouble::Failed { reason, .. } => reason,
                Trouble::Throttled(_) => "the platform accepts no more messages for now".to_owned(),
            }),
            Err(_) => Err("the server is stopping".to_owned()),
        }
    }
}
