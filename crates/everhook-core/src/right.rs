//! Rights: each operation of the API needs one, and the scope of an API key grants several.
//!
//! Pure. The `access` module of the API maps routes to rights and calls [`Grants::allow`]. Application tokens have
//! capabilities instead, see [`capability`](crate::capability).

use std::fmt;
use std::str::FromStr;

use crate::task::stored_as;

/// The permission that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Read everything except secrets.
    Read,
    /// Create and change the objects of customers: messages, jobs, applications, endpoints.
    Write,
    /// Change running work and shared settings: redrive, cancel, pause, delete, policies, queues.
    Operate,
    /// Read or set signing secrets.
    RevealSecret,
    /// Choose the URLs that messages and jobs are sent to.
    ChangeUrl,
    /// Create, list and revoke keys, and issue tokens.
    ManageKeys,
    /// Use the routes that span environments.
    Admin,
}

impl Right {
    pub const ALL: [Right; 7] = [
        Right::Read,
        Right::Write,
        Right::Operate,
        Right::RevealSecret,
        Right::ChangeUrl,
        Right::ManageKeys,
        Right::Admin,
    ];

    /// The rights that a key has or lacks independently of its scope.
    pub const EXTRA: [Right; 2] = [Right::RevealSecret, Right::ChangeUrl];

    pub const fn name(self) -> &'static str {
        match self {
            Right::Read => "read",
            Right::Write => "write",
            Right::Operate => "operate",
            Right::RevealSecret => "reveal-secret",
            Right::ChangeUrl => "change-url",
            Right::ManageKeys => "manage-keys",
            Right::Admin => "admin",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The scope of an API key, from the most to the fewest rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScope {
    /// All operations in all environments.
    Admin,
    /// All operations in one environment.
    Operate,
    Write,
    Read,
}

stored_as!(KeyScope { Admin = 0, Operate = 1, Write = 2, Read = 3 });

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be admin, operate, write or read")]
pub struct BadKeyScope;

impl KeyScope {
    pub const ALL: [KeyScope; 4] = [KeyScope::Admin, KeyScope::Operate, KeyScope::Write, KeyScope::Read];

    pub const fn name(self) -> &'static str {
        match self {
            KeyScope::Admin => "admin",
            KeyScope::Operate => "operate",
            KeyScope::Write => "write",
            KeyScope::Read => "read",
        }
    }

    /// The extra rights of a key that names none.
    pub const fn default_extra(self) -> ExtraRights {
        match self {
            KeyScope::Admin | KeyScope::Operate => ExtraRights::ALL,
            KeyScope::Write | KeyScope::Read => ExtraRights::NONE,
        }
    }
}

impl FromStr for KeyScope {
    type Err = BadKeyScope;

    fn from_str(name: &str) -> Result<KeyScope, BadKeyScope> {
        KeyScope::ALL.into_iter().find(|known| known.name() == name).ok_or(BadKeyScope)
    }
}

impl fmt::Display for KeyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The extra rights of a key, as bits: those of [`Right::EXTRA`] that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraRights(i16);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRights {
    #[error("must be reveal-secret or change-url")]
    Unknown,
    #[error("must not contain duplicates")]
    Twice,
    /// A key that cannot change an endpoint cannot change its URL.
    #[error("change-url needs the scope write, operate or admin")]
    UrlOfReader,
    #[error("a key with the scope admin always has reveal-secret and change-url")]
    OfAdmin,
}

impl ExtraRights {
    pub const NONE: ExtraRights = ExtraRights(0);
    pub const ALL: ExtraRights = ExtraRights(0b11);

    /// Parses the list of a request for a key with this scope.
    pub fn of_request<'a>(scope: KeyScope, names: impl IntoIterator<Item = &'a str>) -> Result<ExtraRights, BadRights> {
        let mut all = ExtraRights::NONE;
        for name in names {
            let bit = Right::EXTRA.iter().position(|right| right.name() == name).ok_or(BadRights::Unknown)?;
            if all.0 & (1 << bit) != 0 {
                return Err(BadRights::Twice);
            }
            all.0 |= 1 << bit;
        }
        match scope {
            KeyScope::Admin if all != ExtraRights::ALL => Err(BadRights::OfAdmin),
            KeyScope::Read if all.has(Right::ChangeUrl) => Err(BadRights::UrlOfReader),
            _ => Ok(all),
        }
    }

    pub const fn to_db(self) -> i16 {
        self.0
    }

    /// Reads a stored value. Bits of newer binaries grant nothing here.
    pub const fn from_db(bits: i16) -> ExtraRights {
        ExtraRights(bits & ExtraRights::ALL.0)
    }

    fn has(self, right: Right) -> bool {
        Right::EXTRA.iter().position(|known| *known == right).is_some_and(|bit| self.0 & (1 << bit) != 0)
    }
}

/// The rights of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grants {
    pub scope: KeyScope,
    pub extra: ExtraRights,
}

impl Grants {
    /// Returns the rights of a key with this scope that names no extra rights.
    pub const fn of(scope: KeyScope) -> Grants {
        Grants { scope, extra: scope.default_extra() }
    }

    pub fn allow(self, right: Right) -> bool {
        match (self.scope, right) {
            (KeyScope::Admin, _) => true,
            (_, Right::Admin) => false,
            // The keys and tokens that it creates could have both extra rights.
            (KeyScope::Operate, Right::ManageKeys) => self.extra == ExtraRights::ALL,
            (_, Right::RevealSecret) => self.extra.has(right),
            (KeyScope::Read, Right::ChangeUrl) => false,
            (_, Right::ChangeUrl) => self.extra.has(right),
            (_, Right::Read) | (KeyScope::Operate, _) | (KeyScope::Write, Right::Write) => true,
            (KeyScope::Write | KeyScope::Read, _) => false,
        }
    }

    /// The names of all rights.
    pub fn names(self) -> Vec<&'static str> {
        Right::ALL.into_iter().filter(|right| self.allow(*right)).map(Right::name).collect()
    }

    /// Whether a holder of these rights may create a key with `other`: never one with more rights than its own.
    pub fn cover(self, other: Grants) -> bool {
        Right::ALL.into_iter().all(|right| self.allow(right) || !other.allow(right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(scope: &str, extra: Option<&[&str]>, want: &[&str]) {
        let scope: KeyScope = scope.parse().unwrap();
        let extra = extra.map(|names| ExtraRights::of_request(scope, names.iter().copied()).unwrap());
        let grants = Grants { scope, extra: extra.unwrap_or(scope.default_extra()) };
        assert_eq!(grants.names(), want);
    }

    #[test]
    fn a_scope_grants_its_rights_and_secrets_and_urls_are_granted_apart() {
        check("read", None, &["read"]);
        check("read", Some(&["reveal-secret"]), &["read", "reveal-secret"]);
        check("write", None, &["read", "write"]);
        check("write", Some(&["change-url"]), &["read", "write", "change-url"]);
        check("operate", None, &["read", "write", "operate", "reveal-secret", "change-url", "manage-keys"]);
        check("operate", Some(&[]), &["read", "write", "operate"]);
        let all = ["read", "write", "operate", "reveal-secret", "change-url", "manage-keys", "admin"];
        check("admin", None, &all);
    }

    #[test]
    fn a_request_names_known_rights_once_that_the_scope_can_use() {
        let read = |scope, names: &[&str]| ExtraRights::of_request(scope, names.iter().copied());
        assert_eq!(read(KeyScope::Write, &["reveal-secret", "change-url"]), Ok(ExtraRights::ALL));
        assert_eq!(read(KeyScope::Write, &["operate"]), Err(BadRights::Unknown));
        assert_eq!(read(KeyScope::Write, &["change-url", "change-url"]), Err(BadRights::Twice));
        assert_eq!(read(KeyScope::Read, &["change-url"]), Err(BadRights::UrlOfReader));
        assert_eq!(read(KeyScope::Admin, &[]), Err(BadRights::OfAdmin));
        assert_eq!("root".parse::<KeyScope>(), Err(BadKeyScope));
    }

    #[test]
    fn no_key_creates_one_with_more_rights_than_its_own() {
        let operate = Grants::of(KeyScope::Operate);
        let plain = Grants { extra: ExtraRights::NONE, ..operate };
        assert!(operate.cover(plain) && operate.cover(operate) && operate.cover(Grants::of(KeyScope::Read)));
        assert!(!plain.cover(operate) && !operate.cover(Grants::of(KeyScope::Admin)));
        assert!(!plain.cover(Grants { scope: KeyScope::Read, extra: ExtraRights::ALL }));
        assert!(Grants::of(KeyScope::Admin).cover(Grants::of(KeyScope::Admin)));
    }

    #[test]
    fn a_bit_of_a_newer_binary_grants_nothing() {
        assert_eq!(ExtraRights::from_db(0b111), ExtraRights::ALL);
        assert_eq!(ExtraRights::from_db(0b100), ExtraRights::NONE);
    }
}
