//! Events as part of your own transaction: the client side of Everhook's outbox.
//!
//! [`postgres::send`] and [`sqlite::send`] write one row in the transaction you are in. If you commit, Everhook delivers the event,
//! once; if you roll back, it never was. Nothing here talks to a server: Everhook finds the row by itself. Features: `postgres` for
//! `tokio-postgres`, `sqlite` for `rusqlite`; without any, only the texts that make the tables are here.

#[cfg(feature = "postgres")]
pub mod postgres;
pub mod schema;
#[cfg(feature = "sqlite")]
pub mod sqlite;

/// What happened, for whom. Everything but the first three fields may be left at its default.
///
/// ```
/// use everhook_outbox::Event;
///
/// let event = Event { tags: &["blue"], ..Event::new("acme", "order.paid", r#"{"order": 7}"#) };
/// assert_eq!(event.application, "acme");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event<'a> {
    /// The application's id or uid.
    pub application: &'a str,
    /// What kind of thing happened.
    pub event_type: &'a str,
    /// A JSON object, sent byte for byte.
    pub payload: &'a str,
    /// The environment's name; none means the one that the outbox is for.
    pub environment: Option<&'a str>,
    /// Your own id for it, accepted once per application.
    pub event_id: Option<&'a str>,
    /// Only endpoints that listen to one of these, or to all, get it.
    pub channels: &'a [&'a str],
    /// For finding it again.
    pub tags: &'a [&'a str],
    /// When it is to be delivered, if not at once: microseconds since the Unix epoch.
    pub deliver_at_us: Option<i64>,
    /// A once-slot: of the events that name it in one phase, the first is delivered.
    pub once_key: Option<&'a str>,
    /// The phase; none means the current one.
    pub once_phase: Option<i64>,
}

impl<'a> Event<'a> {
    /// An event without anything special.
    pub fn new(application: &'a str, event_type: &'a str, payload: &'a str) -> Event<'a> {
        Event { application, event_type, payload, ..Event::default() }
    }
}
