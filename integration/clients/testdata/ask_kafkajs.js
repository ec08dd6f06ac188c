// Writes what it is told to, a line of JSON for each record, and says where that lies. See doc.go.
const { Kafka, logLevel } = require('kafkajs')
const readline = require('readline')

const brokers = process.argv.slice(2)

async function main () {
  let producer
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const r = JSON.parse(line)
    if (r === null) {
      await producer.disconnect()
      producer = undefined
      console.log('null')
      continue
    }
    if (!producer) {
      producer = new Kafka({ brokers, logLevel: logLevel.ERROR }).producer()
      await producer.connect()
    }
    const message = { key: r.key, value: r.value, headers: r.headers }
    if (r.partition !== null) message.partition = r.partition
    const [at] = await producer.send({ topic: r.topic, acks: -1, messages: [message] })
    console.log(JSON.stringify({ partition: at.partition, offset: Number(at.baseOffset) }))
  }
  if (producer) await producer.disconnect()
}
main().catch(err => { console.error(err); process.exit(1) })
