import{r as e}from"./rolldown-runtime-XKyaHtl9.js";import{n as t,t as n}from"./jsx-runtime-C3cWAN_r.js";import{H as r,I as i,R as a,V as o,d as s,p as c}from"./dist-k0RPDUla.js";import{c as l,d as u,f as d,h as f,n as p,o as m,s as h,t as g}from"./status-DqKr6y9R.js";import{t as _}from"./eye-afvZce-c.js";import{t as v}from"./attempts-D58lgnxt.js";import{A as y,F as b,Ht as x,Lt as S,Nt as C,Ot as w,Tt as T,Xt as E,an as D,sn as O}from"./index-BJIcYI0D.js";import{n as k}from"./time-BD1b2PTg.js";import{t as A}from"./example-CxZPkhQs.js";import{i as j}from"./state-BsFl2ii7.js";import{t as M}from"./figures-CWjbAYA9.js";var N={name:`eye-off`,size:24,node:[[`path`,{d:`M10.733 5.076a10.744 10.744 0 0 1 11.205 6.575 1 1 0 0 1 0 .696 10.747 10.747 0 0 1-1.444 2.49`,key:`ct8e1f`}],[`path`,{d:`M14.084 14.158a3 3 0 0 1-4.242-4.242`,key:`151rxh`}],[`path`,{d:`M17.479 17.499a10.75 10.75 0 0 1-15.417-5.151 1 1 0 0 1 0-.696 10.75 10.75 0 0 1 4.446-5.143`,key:`13bj9a`}],[`path`,{d:`m2 2 20 20`,key:`1ooewy`}]]};N.node;var P=i(N),F={name:`refresh-cw`,size:24,node:[[`path`,{d:`M3 12a9 9 0 0 1 9-9 9.75 9.75 0 0 1 6.74 2.74L21 8`,key:`v9h5vc`}],[`path`,{d:`M21 3v5h-5`,key:`1q7to0`}],[`path`,{d:`M21 12a9 9 0 0 1-9 9 9.75 9.75 0 0 1-6.74-2.74L3 16`,key:`3uifl3`}],[`path`,{d:`M8 16H3v5`,key:`1cv678`}]]};F.node;var I=i(F),L=e(t(),1),R=[`Python`,`JavaScript`,`Go`,`Rust`],z={Python:`# pip install standardwebhooks
import os
from standardwebhooks.webhooks import Webhook

def handle(request):
    webhook = Webhook(os.environ["WEBHOOK_SECRET"])
    # Raises WebhookVerificationError for a wrong signature or an old timestamp.
    event = webhook.verify(request.body, request.headers)
    queue.put(event)
    return 204`,JavaScript:`// npm install standardwebhooks
import { Webhook } from 'standardwebhooks';

app.post('/hook', express.raw({ type: '*/*' }), (request, response) => {
  const webhook = new Webhook(process.env.WEBHOOK_SECRET);
  // Throws for a wrong signature or an old timestamp.
  const event = webhook.verify(request.body, request.headers);
  queue.push(event);
  response.status(204).end();
});`,Go:`// go get github.com/standard-webhooks/standard-webhooks/libraries
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
})`,Rust:`// cargo add standardwebhooks
async fn handle(headers: HeaderMap, body: Bytes) -> StatusCode {
    let secret = std::env::var("WEBHOOK_SECRET").expect("WEBHOOK_SECRET is set");
    let webhook = Webhook::new(&secret).expect("the secret is valid");
    // Fails for a wrong signature or an old timestamp.
    if webhook.verify(&body, &headers).is_err() {
        return StatusCode::UNAUTHORIZED;
    }
    enqueue(body).await;
    StatusCode::NO_CONTENT
}`},B=n(),V=`24`;function H({app:e,endpoint:t}){return(0,B.jsxs)(`div`,{className:`grid cols two-cards`,children:[(0,B.jsx)(W,{app:e,ep:t.id}),(0,B.jsx)(U,{})]})}function U(){let[e,t]=(0,L.useState)(`Python`);return(0,B.jsx)(M,{title:`Verify`,tools:(0,B.jsx)(d,{small:!0,label:`Language`,value:e,options:R.map(e=>[e,e]),onChange:t}),children:(0,B.jsxs)(`div`,{className:`in stack g8`,children:[(0,B.jsx)(m,{text:z[e],label:`${e} code`}),(0,B.jsxs)(`p`,{className:`s12 t3`,children:[`Pass the body as it arrived: any change of a byte breaks the signature. The headers are `,(0,B.jsx)(`span`,{className:`mono`,children:`webhook-id`}),`, `,(0,B.jsx)(`span`,{className:`mono`,children:`webhook-timestamp`}),` and `,(0,B.jsx)(`span`,{className:`mono`,children:`webhook-signature`}),`.`]})]})})}function W({app:e,ep:t}){let n=b();return(0,B.jsx)(G,{app:e,ep:t,may:n})}function G({app:e,ep:t,may:n}){let[i,s]=(0,L.useState)(!1),[d,p]=(0,L.useState)(V),[m,h]=(0,L.useState)(null),v={app_id:e,endpoint_id:t},b=D({mutationFn:()=>r(a.GET(`/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret`,{params:{path:v}}))}),S=x(()=>r(a.POST(`/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret/rotate`,{params:{path:v},body:{gracePeriodSeconds:Math.round(Number(d)*3600)}})),[`endpoints`],()=>{h(Number(d)>0?new Date(Date.now()+Number(d)*36e5).toISOString():null),s(!1),b.mutate()}),C=b.data?.key,w=Number(d),T=!Number.isFinite(w)||w<0||d.trim()===``?`Must be a number of hours, 0 or more`:null;return(0,B.jsxs)(M,{title:`Signing secret`,tools:n&&(0,B.jsx)(l,{size:`sm`,kind:`ghost`,icon:I,onClick:()=>s(!0),children:`Rotate`}),children:[(0,B.jsxs)(`div`,{className:`in stack g12`,children:[(0,B.jsxs)(`span`,{className:`inp secret`,children:[(0,B.jsx)(`span`,{className:`mono cut grow`,children:C??`whsec_••••••••••••••••••••`}),C?(0,B.jsx)(u,{icon:P,label:`Hide the secret`,size:`sm`,onClick:()=>b.reset()}):(0,B.jsx)(u,{icon:_,label:`Reveal the secret`,size:`sm`,disabled:b.isPending,onClick:()=>b.mutate()}),C&&(0,B.jsx)(c,{text:C,label:`Copy the secret`})]}),b.isError&&(0,B.jsx)(g,{look:`dead`,title:o(b.error)}),m&&(0,B.jsx)(g,{look:`retrying`,title:(0,B.jsxs)(B.Fragment,{children:[`The old secret also signs for `,(0,B.jsx)(k,{at:m}),`.`]}),children:`Deliveries carry both signatures until then. Change the receiver before it ends.`}),(0,B.jsx)(`p`,{className:`s12 t3`,children:`Deliveries are signed with this secret. Keep it on the receiver only.`})]}),(0,B.jsxs)(y,{open:i,onClose:()=>s(!1),title:`Rotate the secret`,onSubmit:()=>!T&&S.mutate(void 0),footer:(0,B.jsxs)(B.Fragment,{children:[(0,B.jsx)(l,{onClick:()=>s(!1),children:`Cancel`}),(0,B.jsx)(l,{kind:`primary`,submit:!0,busy:S.isPending,disabled:T!==null,children:`Rotate secret`})]}),children:[(0,B.jsx)(`p`,{children:`A new random secret signs from now on. During the overlap deliveries carry the signatures of both, so that the receiver can be changed without a failure.`}),(0,B.jsx)(f,{label:`Overlap`,value:d,onChange:p,unit:`hours`,inputMode:`decimal`,error:T,hint:`0 ends the old secret at once`}),S.isError&&(0,B.jsx)(g,{look:`dead`,title:o(S.error)})]})]})}function K({app:e,endpoint:t}){return(0,B.jsx)(q,{app:e,endpoint:t,may:b()})}function q({app:e,endpoint:t,may:n}){let i=O(C()),[s,c]=(0,L.useState)(t.eventTypes?.find(e=>!e.includes(`*`))??``),[u,d]=(0,L.useState)(``),[m,_]=(0,L.useState)(null),v=s||i.data?.data[0]?.name||``,y=A(i.data?.data.find(e=>e.name===v))??`{}`,b=u||y,S=E(b),w=x(()=>{let n={eventType:v,...u?{payload:JSON.parse(u)}:{}};return r(a.POST(`/api/v1/app/{app_id}/endpoint/{endpoint_id}/send-example`,{params:{path:{app_id:e,endpoint_id:t.id}},body:n}))},[`messages`,`deliveries`],e=>_(e.id));return(0,B.jsxs)(`div`,{className:`grid cols two-cards`,children:[(0,B.jsx)(M,{title:`Test`,sub:`only this endpoint gets it`,children:(0,B.jsxs)(`div`,{className:`in stack`,children:[(0,B.jsx)(f,{label:`Event type`,value:s,onChange:c,placeholder:v,mono:!0,list:`test-types`,hint:i.data?.data.length===0?`No event type is described yet. Describe one first: a test sends its example`:`One of the described event types`}),(0,B.jsx)(`datalist`,{id:`test-types`,children:i.data?.data.map(e=>(0,B.jsx)(`option`,{value:e.name},e.name))}),(0,B.jsx)(h,{label:`Payload`,value:b,onChange:d,rows:9,error:S===void 0?`The payload is not valid JSON`:null}),w.isError&&(0,B.jsx)(g,{look:`dead`,title:o(w.error)}),n&&(0,B.jsx)(`span`,{children:(0,B.jsx)(l,{kind:`primary`,busy:w.isPending,disabled:S===void 0||!v,onClick:()=>w.mutate(void 0),children:`Send test`})})]})}),m?(0,B.jsx)(J,{app:e,msg:m,ep:t.id},m):(0,B.jsx)(M,{title:`Reply`,children:(0,B.jsx)(p,{title:`No test sent`,children:`The reply of the endpoint appears here.`})})]})}function J({app:e,msg:t,ep:n}){let r=O({...w(e,t,n),refetchInterval:e=>e.state.data?.state!==`succeeded`&&700}).data,i=O({...T(e,t,n),refetchInterval:e=>e.state.data?.data[0]?.status!==0&&700}).data,a=O(S(e,t)).data?.payload,o=i?.data[0];return(0,B.jsxs)(`div`,{className:`stack`,children:[r&&(0,B.jsx)(s,{...j(r),size:`lg`}),o?(0,B.jsx)(v,{attempt:o,number:i?.data.length??1,payload:a}):(0,B.jsx)(M,{title:`Waiting for the reply`,children:(0,B.jsx)(p,{title:`Sent`,children:`The attempt is running.`})})]})}export{U as a,G as i,q as n,H as r,K as t};