//! Error texts of failed attempts.
//!
//! Every text is fixed: errors of libraries may contain internal addresses, or text chosen by the receiver.

use std::io;
use std::net::IpAddr;

use everhook_core::outcome::{Blame, Class, SendFailure};
use hickory_resolver::net::NetError;
use rustls::{AlertDescription, CertificateError};

use crate::egress::BadUrl;

/// One text for all forbidden addresses, so that it reveals nothing about the internal network.
pub(crate) fn blocked() -> SendFailure {
    failure(
        Class::Blocked,
        "the receiver's address is private or reserved; have the operator add it to EVERHOOK_EGRESS_ALLOW",
    )
}

pub(crate) fn timeout(detail: &'static str) -> SendFailure {
    failure(Class::Timeout, detail)
}

pub(crate) fn internal(detail: &'static str) -> SendFailure {
    failure(Class::Internal, detail)
}

/// The URL was valid when it was saved; the rules or the row have changed since.
pub(crate) fn bad_url(error: &BadUrl) -> SendFailure {
    match error {
        BadUrl::Forbidden => blocked(),
        BadUrl::HttpsOnly | BadUrl::PortForbidden | BadUrl::HostForbidden | BadUrl::Own => {
            SendFailure::new(Class::Blocked, error.to_string())
        }
        BadUrl::Name => SendFailure::new(Class::Dns, error.to_string()),
        _ => SendFailure::new(Class::Internal, error.to_string()),
    }
}

pub(crate) fn dns(error: &NetError) -> SendFailure {
    if let NetError::Io(error) = error
        && let Some(lack) = lack(error, None)
    {
        return exhausted(Class::Dns, lack);
    }
    failure(
        Class::Dns,
        match error {
            NetError::Timeout => "DNS lookup timed out",
            error if error.is_nx_domain() => "the host name does not exist",
            error if error.is_no_records_found() => "the host name has no address",
            _ => "DNS lookup failed",
        },
    )
}

pub(crate) fn dns_no_address() -> SendFailure {
    failure(Class::Dns, "the host name has no address")
}

/// Classified as a DNS failure, not as a timeout: the name servers are slow, so the receiver's lane need not back off.
pub(crate) fn dns_timeout() -> SendFailure {
    failure(Class::Dns, "DNS lookup timed out")
}

pub(crate) fn connect(error: &io::Error, to: IpAddr) -> SendFailure {
    if let Some(lack) = lack(error, Some(to)) {
        return exhausted(Class::Connect, lack);
    }
    failure(
        Class::Connect,
        match error.kind() {
            io::ErrorKind::ConnectionRefused => "the connection was refused",
            io::ErrorKind::ConnectionReset => "the connection was reset before it was made",
            io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable | io::ErrorKind::AddrNotAvailable => {
                "the receiver is unreachable"
            }
            _ => "the connection failed",
        },
    )
}

pub(crate) fn tls(error: &io::Error) -> SendFailure {
    let detail = match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(certificate)) => bad_certificate(certificate),
        Some(rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::AccessDenied,
        )) => "the receiver requires another client certificate",
        Some(rustls::Error::InvalidMessage(_)) => "the receiver does not speak TLS on this port",
        Some(
            rustls::Error::PeerIncompatible(_)
            | rustls::Error::AlertReceived(
                AlertDescription::ProtocolVersion
                | AlertDescription::HandshakeFailure
                | AlertDescription::InsufficientSecurity
                | AlertDescription::NoApplicationProtocol,
            ),
        ) => "the receiver supports no common TLS version or cipher; TLS 1.2 or 1.3 is required",
        Some(_) => "the TLS handshake failed",
        None => "the connection broke during the TLS handshake",
    };
    failure(Class::Tls, detail)
}

pub(crate) fn tls_name() -> SendFailure {
    failure(Class::Tls, "the host name is not valid in a certificate")
}

/// The answer of the egress proxy to a request for a connection.
pub(crate) fn proxy_answer(status: Option<u16>) -> SendFailure {
    match status {
        Some(403) => failure(Class::Blocked, "the egress proxy refuses connections to the receiver"),
        Some(407) => failure(Class::Connect, "the egress proxy refuses the credentials of this server"),
        Some(_) => failure(Class::Connect, "the egress proxy could not connect to the receiver"),
        None => failure(Class::Connect, "the egress proxy does not answer in HTTP"),
    }
}

/// The egress proxy cannot be reached, so nothing was sent.
pub(crate) fn proxy_unreachable() -> SendFailure {
    SendFailure { blame: Blame::Node, ..failure(Class::Connect, "this node cannot reach the egress proxy") }
}

/// The endpoint has a client certificate or an authority, and a URL without TLS.
pub(crate) fn needs_https() -> SendFailure {
    failure(Class::Tls, "the endpoint has a client certificate or an own CA, but its url is not https")
}

/// The material was valid when it was saved.
pub(crate) fn bad_material() -> SendFailure {
    failure(Class::Tls, "the client certificate or the CA of the endpoint cannot be used; set it again")
}

/// A new connection was closed before the request started.
pub(crate) fn hung_up() -> SendFailure {
    failure(Class::Connect, "the receiver closed the connection before the request")
}

/// The request had started, so the receiver may have seen it.
pub(crate) fn exchange(error: &hyper::Error) -> SendFailure {
    if error.is_user() {
        return internal("the request could not be built");
    }
    failure(
        Class::Reset,
        if error.is_parse() {
            "the reply is not HTTP/1.1, or its head is too large"
        } else {
            "the connection broke before the reply was complete"
        },
    )
}

/// The receiver sent more bytes than a head and a few interim replies need.
pub(crate) fn head_too_large() -> SendFailure {
    failure(Class::Reset, "the receiver sent too many interim replies, or too large a head")
}

fn bad_certificate(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "the certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is for another host"
        }
        CertificateError::UnknownIssuer => "the certificate is from an unknown authority",
        CertificateError::Revoked => "the certificate was revoked",
        _ => "the certificate is not valid",
    }
}

/// The resource that this node has run out of, if that caused the error.
fn lack(error: &io::Error, to: Option<IpAddr>) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EMFILE => Some("this node has reached its limit of open files"),
        libc::ENFILE => Some("this machine has reached its limit of open files"),
        libc::ENOBUFS | libc::ENOMEM => Some("this node has no memory left for connections"),
        // For IPv6 the error means that this machine has no IPv6 address, which no waiting cures.
        libc::EADDRNOTAVAIL if to.is_none_or(|to| to.is_ipv4()) => Some("this node has no free port left"),
        _ => None,
    }
}

fn exhausted(class: Class, detail: &'static str) -> SendFailure {
    SendFailure { blame: Blame::Node, ..failure(class, detail) }
}

fn failure(class: Class, detail: &'static str) -> SendFailure {
    SendFailure::new(class, detail)
}
