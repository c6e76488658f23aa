// Places an order and sends its event in one transaction, with pg.
//
//     npm install
//     DATABASE_URL=postgres://... node place_order.js APPLICATION NUMBER [fail]
//
// With `fail`, the transaction rolls back after the send: neither the order nor the event exists.

import pg from "pg";

async function placeOrder(client, application, number, fails) {
  await client.query("begin");
  try {
    await client.query("insert into orders (number) values ($1)", [number]);
    // The call adds one insert to your transaction. Everhook delivers the event after the commit. It sends a text
    // payload byte for byte.
    const payload = JSON.stringify({ number });
    await client.query("select everhook.send($1, $2, $3::text, event_id => $4, tags => $5)", [
      application,
      "order.placed",
      payload,
      `order-${number}`,
      ["node"],
    ]);
    if (fails) throw new Error("the payment was refused");
    await client.query("commit");
  } catch (reason) {
    await client.query("rollback");
    throw reason;
  }
}

const [application, number, fails] = process.argv.slice(2);
const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
await client.query("create table if not exists orders (number int primary key)");
try {
  await placeOrder(client, application, Number(number), fails === "fail");
  console.log(`placed order ${number}`);
} catch (reason) {
  console.log(`did not place order ${number}: ${reason.message}`);
}
await client.end();
