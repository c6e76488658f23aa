-- List the delivery policies of all environments that have one. Environments are few; each is one look-up in the
-- primary key of resource.
select environment.id, {policy: EnvironmentPolicy}
from everhook.environment
    join everhook.resource as policy on policy.environment = environment.id
        and policy.kind = 6
        and policy.parent = ''::bytea
        and policy.id = :id;
