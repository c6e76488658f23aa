//! The failures of an attempt, in words for people.
//!
//! Every text is fixed: what libraries say may contain addresses of the inside or text of the receiver's choosing.

use std::io;
use std::net::IpAddr;

use everhook_core::outcome::{Blame, Class, SendFailure};
use hickory_resolver::net::NetError;
use rustls::{AlertDescription, CertificateError};

use crate::egress::BadUrl;

/// One text for every forbidden address, so that it says nothing about the network behind it.
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

/// The URL was good once; the rules, or the row it came from, have changed since.
pub(crate) fn bad_url(error: &BadUrl) -> SendFailure {
    match error {
        BadUrl::Forbidden => blocked(),
        BadUrl::HttpsOnly => SendFailure::new(Class::Blocked, error.to_string()),
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
            NetError::Timeout => "the host name was not resolved in time",
            error if error.is_nx_domain() => "the host name does not exist",
            error if error.is_no_records_found() => "the host name has no address",
            _ => "the host name could not be resolved",
        },
    )
}

pub(crate) fn dns_no_address() -> SendFailure {
    failure(Class::Dns, "the host name has no address")
}

/// The name servers are slow, not the receiver: its lane has no reason to wait.
pub(crate) fn dns_timeout() -> SendFailure {
    failure(Class::Dns, "the host name was not resolved in time")
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
                "the receiver cannot be reached"
            }
            _ => "the connection could not be made",
        },
    )
}

pub(crate) fn tls(error: &io::Error) -> SendFailure {
    let detail = match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(certificate)) => bad_certificate(certificate),
        Some(rustls::Error::InvalidMessage(_)) => "the receiver does not speak TLS on this port",
        Some(
            rustls::Error::PeerIncompatible(_)
            | rustls::Error::AlertReceived(
                AlertDescription::ProtocolVersion
                | AlertDescription::HandshakeFailure
                | AlertDescription::InsufficientSecurity
                | AlertDescription::NoApplicationProtocol,
            ),
        ) => "the receiver has no TLS version or cipher in common with us; TLS 1.2 or 1.3 is needed",
        Some(_) => "the TLS handshake failed",
        None => "the connection broke during the TLS handshake",
    };
    failure(Class::Tls, detail)
}

pub(crate) fn tls_name() -> SendFailure {
    failure(Class::Tls, "the host name cannot be in a certificate")
}

/// A new connection ended before the request could be begun on it.
pub(crate) fn hung_up() -> SendFailure {
    failure(Class::Connect, "the receiver closed the connection at once")
}

/// The request was begun, so that the receiver may have seen it.
pub(crate) fn exchange(error: &hyper::Error) -> SendFailure {
    if error.is_user() {
        return internal("the request could not be formed");
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

/// More came than a head and a few interim replies take.
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

/// What this node lacks, if that is why a socket could not be had.
fn lack(error: &io::Error, to: Option<IpAddr>) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EMFILE => Some("this node has reached its limit of open files"),
        libc::ENFILE => Some("this machine has reached its limit of open files"),
        libc::ENOBUFS | libc::ENOMEM => Some("this node has no memory left for connections"),
        // Of IPv6 it says that this machine has no such address, which is so for every attempt.
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
