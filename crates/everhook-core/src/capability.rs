//! Capabilities: the rights of a token that belongs to one application.
//!
//! Pure. The `access` module of the API maps routes to capabilities and calls [`Capabilities::allow`].

use std::fmt;
use std::str::FromStr;

/// A right of an application token. API and tokens use the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Read everything except the signing secrets.
    ViewBase,
    /// Read the signing secret of an endpoint.
    ViewEndpointSecret,
    /// Read and rotate the signing secret of an endpoint.
    ManageEndpointSecret,
    /// Change transformations. No route requires it yet.
    ManageTransformations,
    CreateAttempts,
    /// Create, change and delete endpoints, their headers and secrets.
    ManageEndpoint,
}

impl Capability {
    pub const ALL: [Capability; 6] = [
        Capability::ViewBase,
        Capability::ViewEndpointSecret,
        Capability::ManageEndpointSecret,
        Capability::ManageTransformations,
        Capability::CreateAttempts,
        Capability::ManageEndpoint,
    ];

    /// Name in requests and tokens.
    pub const fn name(self) -> &'static str {
        match self {
            Capability::ViewBase => "ViewBase",
            Capability::ViewEndpointSecret => "ViewEndpointSecret",
            Capability::ManageEndpointSecret => "ManageEndpointSecret",
            Capability::ManageTransformations => "ManageTransformations",
            Capability::CreateAttempts => "CreateAttempts",
            Capability::ManageEndpoint => "ManageEndpoint",
        }
    }

    /// Capabilities that imply this one.
    const fn holders(self) -> &'static [Capability] {
        match self {
            Capability::ViewEndpointSecret => &[Capability::ManageEndpointSecret, Capability::ManageEndpoint],
            Capability::ManageEndpointSecret => &[Capability::ManageEndpoint],
            Capability::ViewBase
            | Capability::ManageTransformations
            | Capability::CreateAttempts
            | Capability::ManageEndpoint => &[],
        }
    }
}

/// The set of capabilities of one token, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCapabilities {
    #[error(
        "must be ViewBase, ViewEndpointSecret, ManageEndpointSecret, ManageTransformations, CreateAttempts or ManageEndpoint"
    )]
    Unknown,
    #[error("must not contain duplicates")]
    Twice,
    /// A token without `ViewBase` could read nothing.
    #[error("must contain ViewBase")]
    NoBase,
}

impl Capabilities {
    pub const ALL: Capabilities = Capabilities(0b11_1111);
    pub const READ_ONLY: Capabilities = Capabilities(1 << Capability::ViewBase as u8);
    const NONE: Capabilities = Capabilities(0);

    /// Parses the list of a request.
    pub fn of_request<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Capabilities, BadCapabilities> {
        let mut all = Capabilities::NONE;
        for name in names {
            let capability: Capability = name.parse()?;
            if all.has(capability) {
                return Err(BadCapabilities::Twice);
            }
            all = all.with(capability);
        }
        if all.has(Capability::ViewBase) { Ok(all) } else { Err(BadCapabilities::NoBase) }
    }

    /// Parses the list of a token. Names from newer servers grant nothing here.
    pub fn of_token<'a>(names: impl IntoIterator<Item = &'a str>) -> Capabilities {
        let known = names.into_iter().filter_map(|name| name.parse().ok());
        known.fold(Capabilities::NONE, Capabilities::with)
    }

    /// Whether the set grants `capability`, directly or through a stronger one.
    pub fn allow(self, capability: Capability) -> bool {
        self.has(capability) || capability.holders().iter().any(|holder| self.has(*holder))
    }

    /// The names as tokens carry them.
    pub fn names(self) -> Vec<&'static str> {
        Capability::ALL.into_iter().filter(|one| self.has(*one)).map(Capability::name).collect()
    }

    #[must_use]
    pub const fn and(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 & other.0)
    }

    const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u8) != 0
    }

    const fn with(self, capability: Capability) -> Capabilities {
        Capabilities(self.0 | 1 << capability as u8)
    }
}

impl FromStr for Capability {
    type Err = BadCapabilities;

    fn from_str(name: &str) -> Result<Capability, BadCapabilities> {
        Capability::ALL.into_iter().find(|known| known.name() == name).ok_or(BadCapabilities::Unknown)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(held: &[&str], allowed: &[Capability]) {
        let held = Capabilities::of_token(held.iter().copied());
        let got: Vec<Capability> = Capability::ALL.into_iter().filter(|one| held.allow(*one)).collect();
        assert_eq!(got, allowed);
    }

    #[test]
    fn whoever_manages_something_may_also_see_it() {
        use Capability::*;
        check(&[], &[]);
        check(&["ViewBase"], &[ViewBase]);
        check(&["ViewEndpointSecret"], &[ViewEndpointSecret]);
        check(&["ManageEndpointSecret"], &[ViewEndpointSecret, ManageEndpointSecret]);
        check(&["ManageEndpoint"], &[ViewEndpointSecret, ManageEndpointSecret, ManageEndpoint]);
        check(&["CreateAttempts", "of a newer server"], &[CreateAttempts]);
        assert!(Capability::ALL.into_iter().all(|one| Capabilities::ALL.allow(one)));
        assert_eq!(Capabilities::READ_ONLY.names(), ["ViewBase"]);
        assert_eq!(Capabilities::ALL.names().len(), Capability::ALL.len());
    }

    #[test]
    fn a_request_names_known_capabilities_once_and_viewbase_among_them() {
        let read = |names: &[&str]| Capabilities::of_request(names.iter().copied());
        assert_eq!(read(&["ViewBase"]), Ok(Capabilities::READ_ONLY));
        assert_eq!(read(&["ViewBase", "ViewBase"]), Err(BadCapabilities::Twice));
        assert_eq!(read(&["ManageEndpoint"]), Err(BadCapabilities::NoBase));
        assert_eq!(read(&[]), Err(BadCapabilities::NoBase));
        assert_eq!(read(&["viewbase"]), Err(BadCapabilities::Unknown));
    }
}
