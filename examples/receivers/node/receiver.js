// A receiver that verifies deliveries with the standardwebhooks library.
//
//     npm install
//     WEBHOOK_SECRET=whsec_... node receiver.js [PORT]

import { createServer } from "node:http";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

const webhook = new Webhook(process.env.WEBHOOK_SECRET);
const done = new Set();

function work(id, payload) {
  // A message may arrive again with the same id. Duplicates also get a 2xx response. This set is in memory; use a table
  // with the id as its primary key.
  if (done.has(id)) return console.log(`repeated ${id}`);
  done.add(id);
  console.log(`received ${id} ${JSON.stringify(payload)}`);
}

const server = createServer(async (request, response) => {
  // Verify the bytes as received: a body that was parsed and serialised again has another signature.
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  let payload;
  try {
    payload = webhook.verify(Buffer.concat(chunks).toString("utf8"), request.headers);
  } catch (reason) {
    if (!(reason instanceof WebhookVerificationError)) throw reason;
    console.log(`refused: ${reason.message}`);
    return response.writeHead(401).end();
  }
  // Respond first, process later: the sender waits at most 15 seconds.
  response.writeHead(204).end();
  setImmediate(work, request.headers["webhook-id"], payload);
});

server.listen(Number(process.argv[2] ?? 9000), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}/`);
});
