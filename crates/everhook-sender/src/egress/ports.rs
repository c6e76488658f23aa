//! The ports that requests may go to.
//!
//! Without a list of the operator, every port is permitted except those of well-known services. A text protocol such as
//! SMTP or Redis reads an HTTP request as commands, so a webhook to its port could act on the service.

/// Ports that browsers refuse (the "bad ports" of the Fetch standard, without the discard port 9, which harms nobody),
/// and ports of databases, caches, brokers and control planes. Sorted.
const SERVICE_PORTS: [u16; 117] = [
    1, 7, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 623, 636, 873, 989, 990, 993, 995, 1433, 1434, 1521, 1719, 1720, 1723,
    2049, 2181, 2375, 2376, 2377, 2379, 2380, 3306, 3389, 3659, 4045, 4190, 4369, 5060, 5061, 5432, 5672, 5900, 5984,
    5985, 5986, 6000, 6379, 6443, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 9092, 9100, 9200, 9300, 10080,
    10250, 10255, 11211, 16379, 26379, 27017, 27018, 27019,
];

/// Whether the rules permit `port`. `only` is the operator's list; an empty list means all but service ports.
pub(super) fn permits(only: &[u16], port: u16) -> bool {
    match only {
        [] => port != 0 && SERVICE_PORTS.binary_search(&port).is_err(),
        only => only.contains(&port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_without_duplicates() {
        assert!(SERVICE_PORTS.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn service_ports_are_refused_and_web_ports_are_not() {
        for port in [0, 22, 23, 25, 53, 110, 389, 445, 2375, 2376, 3306, 5432, 6379, 9200, 10250, 11211, 27017] {
            assert!(!permits(&[], port), "{port}");
        }
        for port in [80, 443, 3000, 5000, 8000, 8080, 8443, 9000, 32768, 60999, 65535] {
            assert!(permits(&[], port), "{port}");
        }
    }

    #[test]
    fn the_operators_list_replaces_the_default() {
        assert!(permits(&[443, 25], 25));
        assert!(!permits(&[443, 25], 80));
    }
}
