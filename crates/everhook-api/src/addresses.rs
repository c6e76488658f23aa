//! Limits the connections of each client address, so that one client cannot use up all connections.
//!
//! Behind a proxy, all connections have the proxy's address. Therefore the limit is configurable.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

/// The network part of an IPv6 address. Addresses of one /64 network count as one client, because a client usually has
/// the whole network.
const NETWORK: u128 = !(u64::MAX as u128);

/// Counts the open connections of every client address.
#[derive(Debug)]
pub(crate) struct Addresses {
    max: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One counted connection of an address. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    addresses: Arc<Addresses>,
    client: IpAddr,
}

impl Addresses {
    /// Allows `max` connections for each address.
    pub(crate) fn new(max: usize) -> Arc<Addresses> {
        Arc::new(Addresses { max, open: Mutex::default() })
    }

    /// Reserves a place for a connection from `address`, or returns none if the address is at its limit.
    pub(crate) fn take(addresses: &Arc<Addresses>, address: IpAddr) -> Option<ConnectionPlace> {
        let client = client(address);
        let mut open = addresses.lock();
        let count = open.get(&client).copied().unwrap_or(0);
        if count >= addresses.max {
            return None;
        }
        open.insert(client, count + 1);
        Some(ConnectionPlace { addresses: Arc::clone(addresses), client })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().expect("nothing panics while it holds this lock")
    }
}

impl ConnectionPlace {
    /// The address that stands for the client.
    pub(crate) fn client(&self) -> IpAddr {
        self.client
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut open = self.addresses.lock();
        match open.get_mut(&self.client) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.client)),
        }
    }
}

/// Returns the address under which a client is counted.
pub(crate) fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_gets_them_back() {
        let addresses = Addresses::new(2);
        let take = |address: &str| Addresses::take(&addresses, address.parse().unwrap());
        let (first, second) = (take("192.0.2.1"), take("192.0.2.1"));
        assert!(first.is_some() && second.is_some());
        assert!(take("192.0.2.1").is_none());
        assert!(take("::ffff:192.0.2.1").is_none(), "the same address in another form");
        assert!(take("192.0.2.2").is_some());
        drop(first);
        let third = take("192.0.2.1");
        assert!(third.is_some() && take("192.0.2.1").is_none());
        drop((second, third));
        assert!(addresses.lock().is_empty(), "addresses without connections are forgotten");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let addresses = Addresses::new(1);
        let take = |address: &str| Addresses::take(&addresses, address.parse().unwrap());
        let _place = take("2001:db8:0:1::1").unwrap();
        assert!(take("2001:db8:0:1:ffff::2").is_none());
        assert!(take("2001:db8:0:2::1").is_some());
    }
}
