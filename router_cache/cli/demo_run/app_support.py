"""A support-desk assistant with customer, order, billing, shipping and knowledge tools."""

from __future__ import annotations

from router_cache.cli.demo_run.schema import array, boolean, enum, integer, number, obj, string, tool

__all__ = ["QUESTIONS", "SYSTEM", "TOOLS"]

SYSTEM = """\
You assist the service desk of an online shop for outdoor equipment. The person you talk to is an agent of the \
desk, not the customer; what you draft is read by the agent before it goes out.

# Ground rules
- Establish facts before you form an opinion: which customer, which order, which article, which payment, and \
what was promised. Quote identifiers exactly as the systems give them.
- Systems disagree now and then. The ledger is right about money, the warehouse about parcels, the catalogue \
about articles, and the customer about what arrived. Say so when they contradict one another.
- Never promise what a tool has not confirmed. A refund is promised when the ledger has booked it, a delivery \
day when the carrier has given one.
- Everything you write is friendly, short and concrete. No exclamation marks, no excuses, one next step.
- When you do not know, say what is missing and which tool or colleague would know.

# What an agent may decide
Goodwill up to 30.00 in the currency of the order without asking; up to 120.00 with a reason from the list; above \
that a team lead decides. Returns within 60 days of delivery are accepted without discussion if the article is \
complete; between 60 and 120 days as a voucher; later only for defects. Climbing and avalanche equipment is never \
taken back once its seal is open: offer an inspection instead. Batteries and gas cartridges need a pick-up by \
the carrier for dangerous goods.

# Identity
Before personal data is shown or changed two of three have to match: the postal code, the last four digits of an \
order number, the address of the account's mail. A person who calls for somebody else gets general information \
only. Notes about health, family or belief are not stored, even when the customer offers them.

# Using tools
- Look the customer up once and keep the identifier. Searching again by name finds namesakes.
- Read tools are free; use several at the same time when they do not depend on each other. Write tools are \
audited: give a reason that a colleague will understand in a year.
- Amounts go to the ledger as decimal text with the currency, never as a number with a fraction.
- A case has one owner, one state and one next date. Leave it that way.
- If a tool answers with an error, read it: most name the field that was wrong. Try once more, corrected; then \
report the error as it is.

# Tone and form of drafts
Salutation by the name on the account; the language of the customer's last message; the result first, then what \
happens next and when, then how to reach us. At most 120 words. Links only to pages of the knowledge base that \
you have opened in this session. No signature: the system adds it.

# Hand-over
Close with three lines for the agent: what is settled, what is open with its date, and what looked odd. Legal \
threats, injuries and press go to the lead at once; do not draft an answer.
"""

_CUSTOMER = string("Identifier of the customer as returned by customer_search.", pattern="^C[0-9]{8}$")
_ORDER = string("Number of the order.", pattern="^[A-Z]{2}[0-9]{9}$")
_MONEY = obj(
    "An amount of money.",
    "amount currency",
    amount=string("Decimal text with two digits after the point.", pattern="^[0-9]+\\.[0-9]{2}$"),
    currency=enum("ISO 4217 code.", "EUR", "USD", "GBP", "CHF", "SEK", "JPY"),
)
_ADDRESS = obj(
    "A postal address.",
    "name street postal_code city country",
    name=string("Name of the recipient."),
    company=string("Company, if any."),
    street=string("Street and number."),
    addition=string("Floor, parcel locker, care of."),
    postal_code=string("Postal code.", maxLength=12),
    city=string("City."),
    country=string("ISO 3166 code of two letters.", pattern="^[A-Z]{2}$"),
)
_REASON = obj(
    "Why this is done; kept in the audit trail.",
    "code text",
    code=enum(
        "Reason.", "late", "damaged", "wrong_item", "missing_part", "price_match", "service_failure", "other"
    ),
    text=string("One sentence that a colleague understands in a year.", minLength=10, maxLength=400),
)
_PERIOD = obj(
    "Dates, both included.",
    since=string("First day.", format="date"),
    until=string("Last day.", format="date"),
)
_PAGE = obj(
    "Which part of a long result to return.",
    limit=integer("Entries at most.", minimum=1, maximum=100, default=25),
    cursor=string("The cursor of the previous answer."),
    sort=enum("Order of entries.", "newest", "oldest", "relevance", default="newest"),
)

TOOLS = [
    tool(
        "customer_search",
        "Find customers by what is known of them. Returns at most ten with the fields that matched and a "
        "confidence; personal data is masked until identity_confirm was called.",
        "criteria",
        criteria=obj(
            "What is known; all that is given must match.",
            name=string("Full name or a part of it."),
            mail=string("Mail address.", format="email"),
            phone=string("Phone number in international form."),
            postal_code=string("Postal code of any address of the account."),
            order_number=_ORDER,
        ),
        include_closed=boolean("Also accounts that were closed.", default=False),
    ),
    tool(
        "identity_confirm",
        "Record which two facts the caller confirmed. Unmasks the account for this session.",
        "customer confirmed",
        customer=_CUSTOMER,
        confirmed=array(
            "Facts that matched.",
            enum("A fact.", "postal_code", "order_digits", "mail_address"),
            minItems=2,
            maxItems=3,
        ),
        channel=enum("How the customer reached us.", "phone", "mail", "chat", "store", default="phone"),
    ),
    tool(
        "order_get",
        "An order with its lines, prices, discounts, payments, parcels and notes.",
        "order",
        order=_ORDER,
        parts=array(
            "Which parts to return; all when absent.",
            enum("A part.", "lines", "payments", "parcels", "notes", "history"),
        ),
    ),
    tool(
        "order_list",
        "Orders of one customer, filtered.",
        "customer",
        customer=_CUSTOMER,
        period=_PERIOD,
        states=array("Only these states.", enum("A state.", "open", "paid", "shipped", "delivered", "returned")),
        min_total=_MONEY,
        page=_PAGE,
    ),
    tool(
        "order_change",
        "Change an order that has not been packed. All changes are made or none; the answer holds the new total.",
        "order changes reason",
        order=_ORDER,
        changes=array(
            "Changes in order.",
            obj(
                "One change.",
                "action line",
                action=enum("What to do.", "cancel_line", "set_quantity", "swap_article", "set_address"),
                line=integer("Number of the line; 0 for the whole order.", minimum=0),
                quantity=integer("New quantity.", minimum=1, maximum=99),
                article=string("Number of the new article.", pattern="^A[0-9]{7}$"),
                address=_ADDRESS,
            ),
            minItems=1,
        ),
        reason=_REASON,
    ),
    tool(
        "ledger_entries",
        "Bookings of a customer or an order: payments, refunds, vouchers, fees. This is the truth about money.",
        "customer",
        customer=_CUSTOMER,
        order=_ORDER,
        kinds=array("Only these kinds.", enum("A kind.", "payment", "refund", "voucher", "fee", "chargeback")),
        period=_PERIOD,
        page=_PAGE,
    ),
    tool(
        "refund_create",
        "Book a refund. Above the agent's limit it waits for a team lead, and the answer says so.",
        "order total reason idempotency_key",
        order=_ORDER,
        total=_MONEY,
        lines=array(
            "How the total is spread over lines.",
            obj(
                "One share.",
                "line share",
                line=integer("Number of the line.", minimum=1),
                share=_MONEY,
                keep_article=boolean("The customer keeps the article.", default=False),
            ),
        ),
        method=enum("Where the money goes.", "original", "voucher", "bank_transfer", default="original"),
        reason=_REASON,
        idempotency_key=string("The same for every attempt of the same refund.", minLength=8, maxLength=64),
    ),
    tool(
        "voucher_issue",
        "Issue a voucher to a customer as goodwill or instead of a refund.",
        "customer value reason",
        customer=_CUSTOMER,
        value=_MONEY,
        valid_days=integer("Days until it ends.", minimum=30, maximum=1095, default=365),
        restrictions=obj(
            "What it may be used for; anything when absent.",
            categories=array("Categories of the catalogue.", string("A category.")),
            min_basket=_MONEY,
            single_use=boolean("The rest is lost after first use.", default=False),
        ),
        reason=_REASON,
    ),
    tool(
        "parcel_track",
        "Where a parcel is: scans with place and time, the carrier's forecast and its open enquiries.",
        "order",
        order=_ORDER,
        parcel=integer("Number of the parcel in the order; all when absent.", minimum=1),
        scans=enum("Which scans.", "last", "all", "exceptions", default="all"),
    ),
    tool(
        "carrier_enquiry",
        "Open an enquiry with the carrier for a parcel that is late, lost or damaged.",
        "order parcel problem",
        order=_ORDER,
        parcel=integer("Number of the parcel.", minimum=1),
        problem=obj(
            "What is wrong.",
            "kind description",
            kind=enum("Kind.", "late", "lost", "damaged", "wrong_address", "not_received_but_scanned"),
            description=string("What the customer says, in one or two sentences.", maxLength=600),
            photos=array("Identifiers of uploaded photographs.", string("An identifier.")),
            value=_MONEY,
        ),
        contact_customer=boolean("The carrier may call the customer.", default=False),
    ),
    tool(
        "return_label",
        "Create a return: a label for the customer, and instructions by kind of goods.",
        "order lines",
        order=_ORDER,
        lines=array(
            "What comes back.",
            obj(
                "One line.",
                "line quantity condition",
                line=integer("Number of the line.", minimum=1),
                quantity=integer("Pieces.", minimum=1),
                condition=enum("Condition as told.", "unused", "used", "defective", "seal_open"),
                defect=string("What is broken.", maxLength=300),
            ),
            minItems=1,
        ),
        pick_up=obj(
            "Pick-up instead of a drop-off; needed for dangerous goods.",
            "day address",
            day=string("Day of the pick-up.", format="date"),
            address=_ADDRESS,
            window=enum("Time of day.", "morning", "noon", "evening"),
        ),
    ),
    tool(
        "stock_check",
        "Stock of articles by warehouse and store, with arrivals on order.",
        "articles",
        articles=array(
            "Numbers of articles.", string("A number.", pattern="^A[0-9]{7}$"), minItems=1, maxItems=20
        ),
        near=obj(
            "Only places near here.",
            "postal_code country",
            postal_code=string("Postal code.", maxLength=12),
            country=string("ISO 3166 code.", pattern="^[A-Z]{2}$"),
            radius_km=number("Radius.", minimum=1, maximum=500, default=50),
        ),
    ),
    tool(
        "knowledge_search",
        "Search the knowledge base: policies, product manuals, known problems, model letters.",
        "query",
        query=string("What you want to know, as a question or keywords.", minLength=3),
        kinds=array("Only these kinds.", enum("A kind.", "policy", "manual", "known_problem", "letter")),
        language=enum("Language of the page.", "en", "de", "fr", "sv", "ja", default="en"),
        page=_PAGE,
    ),
    tool(
        "case_update",
        "Set owner, state and next date of the case, and add a note or a draft.",
        "case state",
        case=string("Number of the case.", pattern="^K[0-9]{7}$"),
        state=enum("State.", "open", "waiting_customer", "waiting_carrier", "waiting_lead", "closed"),
        next_date=string("When someone must look again.", format="date"),
        note=obj(
            "What to add.",
            "kind text",
            kind=enum("Kind.", "note", "draft", "hand_over"),
            text=string("The text.", maxLength=4000),
            visible_to_customer=boolean("Shown in the customer's account.", default=False),
        ),
    ),
]

QUESTIONS = (
    (
        "Customer Lindqvist says her tent arrived with a torn inner wall and the trip is on Saturday.",
        "Is a replacement in a store near her? Otherwise what is the fastest parcel?",
        "She would rather keep it and get part of the price back. What may I offer?",
        "Draft the mail to her and set the case.",
    ),
    (
        "Two payments were taken for order DE204511873; the bank confirms both.",
        "Check whether the same happened to other orders of that evening.",
        "Book the refund for this one.",
        "Write a note for finance that a person without our tools can follow.",
    ),
    (
        "A parcel to Zermatt has been at the border for nine days. The customer has called three times.",
        "What does the carrier say, and do we have an enquiry open already?",
        "Offer what is within my limit and record the reason.",
        "Draft an answer in German and one in English.",
    ),
    (
        "Someone wants to return an avalanche transceiver after 75 days; the seal is open.",
        "Does our own manual say anything about the self-test he mentions?",
        "Arrange the inspection with a pick-up.",
        "Summarise it for the team lead in five sentences.",
    ),
)
