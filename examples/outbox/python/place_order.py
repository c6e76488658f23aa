"""Places an order and sends its event in one transaction, with psycopg.

    pip install "psycopg[binary]"
    DATABASE_URL=postgres://... python3 place_order.py APPLICATION NUMBER [fail]

With `fail`, the transaction rolls back after the send: neither the order nor the event exists.
"""

import os
import sys

import psycopg
from psycopg.types.json import Jsonb


def place_order(connection, application, number, fails=False):
    with connection.transaction():
        connection.execute("insert into orders (number) values (%s)", [number])
        # The call adds one insert to your transaction. Everhook delivers the event after the commit.
        connection.execute(
            "select everhook.send(%s, %s, %s, event_id => %s, tags => %s)",
            [application, "order.placed", Jsonb({"number": number}), f"order-{number}", ["python"]],
        )
        if fails:
            raise RuntimeError("the payment was refused")


def main():
    application, number, *rest = sys.argv[1:]
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("create table if not exists orders (number int primary key)")
        try:
            place_order(connection, application, int(number), fails=rest == ["fail"])
            print(f"placed order {number}")
        except RuntimeError as reason:
            print(f"did not place order {number}: {reason}")


if __name__ == "__main__":
    main()
