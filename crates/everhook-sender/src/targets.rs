//! A cache of parsed and checked URLs, so that not every request pays for both.
//!
//! The egress rules of a `Sender` never change, so a target that passed them stays valid.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use bytes::Bytes;
use everhook_core::endpoint_auth::EndpointAuth;
use everhook_core::outcome::SendFailure;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::Full;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use url::Url;

use crate::egress::{BadUrl, Egress, is_localhost};
use crate::failure;
use crate::host::{Address, Host, Place, Room};
use crate::limits::TARGETS_MAX;
use crate::link::Message;
use crate::tls::Tls;

pub(crate) struct Target {
    pub(crate) host: Arc<Host>,
    uri: Uri,
}

pub(crate) struct Targets {
    egress: Egress,
    room: Room,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    by_url: HashMap<String, Arc<Target>>,
    /// Keyed by scheme, host and port. A host lives as long as a target or request uses it.
    by_origin: HashMap<String, Weak<Host>>,
}

impl Targets {
    pub(crate) fn new(egress: Egress, room: Room) -> Targets {
        Targets { egress, room, known: RwLock::default() }
    }

    /// Returns the target of a URL. `own` has a client certificate or authorities; such targets share no connection
    /// with others.
    pub(crate) fn find(&self, url: &str, own: Option<&EndpointAuth>, tls: &Tls) -> Result<Arc<Target>, SendFailure> {
        let key = key(url, own);
        // A poisoned lock is harmless: the maps are only a cache.
        if let Some(target) = self.known.read().unwrap_or_else(PoisonError::into_inner).by_url.get(&*key) {
            return Ok(target.clone());
        }
        let bad = |error: BadUrl| failure::bad_url(&error);
        let parsed = self.egress.check_url(url).map_err(bad)?;
        let uri = request_uri(&parsed).map_err(bad)?;
        let own_tls = match own {
            // The receiver could not know the sender, although the endpoint demands it.
            Some(_) if parsed.scheme() != "https" => return Err(failure::needs_https()),
            Some(own) => Some(tls.own(own).map_err(|_| failure::bad_material())?),
            None => None,
        };
        let origin = self::key(&parsed.origin().ascii_serialization(), own).into_owned();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.make_room();
        let target = Arc::new(Target { host: known.host(origin, &parsed, own_tls, self.room).map_err(bad)?, uri });
        known.by_url.insert(key.into_owned(), target.clone());
        Ok(target)
    }

    /// Closes expired idle connections of all hosts.
    pub(crate) fn sweep(&self, now: Instant) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.by_origin.values().filter_map(Weak::upgrade).for_each(|host| host.sweep(now));
    }
}

impl Target {
    pub(crate) fn message(&self, method: Method, mut headers: HeaderMap, body: Bytes) -> Message {
        // The caller must not control routing and framing headers: a wrong length would smuggle a second request.
        for name in [CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
            headers.remove(name);
        }
        headers.insert(HOST, self.host.header.clone());
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        // The HTTP library omits the length of an empty body. Without it, some receivers wait for a body.
        if body.is_empty() && method != Method::GET {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let mut message = Message::new(Full::new(body));
        *message.method_mut() = method;
        *message.uri_mut() = self.uri.clone();
        *message.headers_mut() = headers;
        message
    }
}

impl Known {
    fn make_room(&mut self) {
        if self.by_url.len() < TARGETS_MAX {
            return;
        }
        // Removes every second entry. Exact ages would cost a write per request.
        let mut stays = false;
        self.by_url.retain(|_, _| {
            stays = !stays;
            stays
        });
        self.by_origin.retain(|_, host| host.strong_count() > 0);
    }

    fn host(&mut self, origin: String, url: &Url, tls: Option<TlsConnector>, room: Room) -> Result<Arc<Host>, BadUrl> {
        if let Some(host) = self.by_origin.get(&origin).and_then(Weak::upgrade) {
            return Ok(host);
        }
        let host = Arc::new(Host::new(address_of(url)?, tls, room));
        self.by_origin.insert(origin, Arc::downgrade(&host));
        Ok(host)
    }
}

/// The key of a URL or origin in the cache. Neither has a space.
fn key<'a>(url: &'a str, own: Option<&EndpointAuth>) -> Cow<'a, str> {
    match own.and_then(EndpointAuth::connection_id) {
        Some(id) => Cow::Owned(format!("{id} {url}")),
        None => Cow::Borrowed(url),
    }
}

fn address_of(url: &Url) -> Result<Address, BadUrl> {
    let text = url.host_str().ok_or(BadUrl::NoHost)?;
    let header = match url.port() {
        Some(port) => HeaderValue::try_from(format!("{text}:{port}")),
        None => HeaderValue::from_str(text),
    };
    let name = text.trim_end_matches('.');
    let place = match url.host().ok_or(BadUrl::NoHost)? {
        url::Host::Ipv4(ip) => Place::Address(ip.into()),
        url::Host::Ipv6(ip) => Place::Address(ip.into()),
        url::Host::Domain(_) if is_localhost(name) => Place::Localhost,
        url::Host::Domain(_) => Place::Name(format!("{name}.")),
    };
    let tls_name = match &place {
        _ if url.scheme() != "https" => None,
        Place::Address(ip) => Some(ip.to_string()),
        Place::Localhost | Place::Name(_) => Some(name.to_owned()),
    };
    let port = url.port_or_known_default().ok_or(BadUrl::Port)?;
    Ok(Address { place, port, tls_name, header: header.map_err(|_| BadUrl::NoHost)? })
}

/// Builds the URI from the parsed parts: a second parser might see another host in the whole URL.
fn request_uri(url: &Url) -> Result<Uri, BadUrl> {
    let path_and_query = match url.query() {
        Some(query) => PathAndQuery::try_from(format!("{}?{query}", url.path())),
        None => PathAndQuery::try_from(url.path()),
    };
    Ok(Uri::from(path_and_query.map_err(|_| BadUrl::Ambiguous)?))
}
