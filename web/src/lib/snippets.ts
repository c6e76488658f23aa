// Code that verifies signatures, for receivers. The secret is named, never included.

export const languages = ['Python', 'JavaScript', 'Go', 'Rust'] as const;
export type Language = (typeof languages)[number];

export const verification: Record<Language, string> = {
  Python: `# pip install standardwebhooks
import os
from standardwebhooks.webhooks import Webhook

def handle(request):
    webhook = Webhook(os.environ["WEBHOOK_SECRET"])
    # Raises WebhookVerificationError for a wrong signature or an old timestamp.
    event = webhook.verify(request.body, request.headers)
    queue.put(event)
    return 204`,
  JavaScript: `// npm install standardwebhooks
import { Webhook } from 'standardwebhooks';

app.post('/hook', express.raw({ type: '*/*' }), (request, response) => {
  const webhook = new Webhook(process.env.WEBHOOK_SECRET);
  // Throws for a wrong signature or an old timestamp.
  const event = webhook.verify(request.body, request.headers);
  queue.push(event);
  response.status(204).end();
});`,
  Go: `// go get github.com/standard-webhooks/standard-webhooks/libraries
wh, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
if err != nil {
	log.Fatal(err)
}
http.HandleFunc("/hook", func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	// Returns an error for a wrong signature or an old timestamp.
	if err := wh.Verify(body, r.Header); err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	queue <- body
	w.WriteHeader(http.StatusNoContent)
})`,
  Rust: `// cargo add standardwebhooks
async fn handle(headers: HeaderMap, body: Bytes) -> StatusCode {
    let secret = std::env::var("WEBHOOK_SECRET").expect("WEBHOOK_SECRET is set");
    let webhook = Webhook::new(&secret).expect("the secret is valid");
    // Fails for a wrong signature or an old timestamp.
    if webhook.verify(&body, &headers).is_err() {
        return StatusCode::UNAUTHORIZED;
    }
    enqueue(body).await;
    StatusCode::NO_CONTENT
}`,
};
