//! The list of cases, as macros that the tests of the store crates call.

/// Every case of the lease engine as a test on a [`Backend`](crate::conformance::Backend).
#[macro_export]
macro_rules! conformance_lease {
    ($backend:ty) => {
        $crate::conformance_cases! { $backend, append:
            a_node_with_room_takes_new_deliveries_at_once
            a_message_for_nobody_is_accepted
            without_room_new_deliveries_wait_for_a_lease
            a_new_delivery_does_not_overtake_the_backlog_of_its_lane
            a_new_delivery_does_not_overtake_the_one_before_it_in_the_batch
            a_retry_in_the_future_does_not_keep_new_deliveries_waiting
            a_new_delivery_waits_while_its_lane_is_held
            only_endpoints_that_want_a_message_get_it
            an_endpoint_counts_from_the_moment_it_is_changed
            a_message_of_an_unknown_application_is_refused_and_forgotten
            a_message_of_a_deleted_application_is_refused
            nothing_to_append_is_nothing
            one_bad_neighbour_does_not_cost_the_batch
        }
    };
}

/// Every case there is as a test on a [`Backend`](crate::conformance::Backend) whose store is a whole one.
#[macro_export]
macro_rules! conformance_full {
    ($backend:ty) => {
        $crate::conformance_lease!($backend);
    };
}

/// Some cases of one module as tests, in a module of that name.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($backend:ty, $module:ident: $($case:ident)*) => {
        mod $module {
            #[allow(unused_imports, reason = "the backend may be named by its path")]
            use super::*;

            $(
                #[test]
                fn $case() {
                    $crate::conformance::run::<$backend>(async |fx| $crate::conformance::$module::$case(fx).await);
                }
            )*
        }
    };
}
